//! Real programs: read, written and read again they are the same module, and the text is the one XLA wrote.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use hlo::text::{TextOptions, print, print_with, read};

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test-files/models");
    let entries = fs::read_dir(folder).expect("the folder of models");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".hlo") || path.to_string_lossy().ends_with(".hlo.gz"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).expect("a readable file");
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("compressed text");
    } else {
        text = String::from_utf8(bytes).expect("text");
    }
    text
}

/// The computations and tables of a text, whatever their order.
fn blocks(text: &str) -> Vec<&str> {
    let mut blocks: Vec<&str> = text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()).collect();
    blocks.sort_unstable();
    blocks
}

#[test]
fn models_survive() {
    for path in models() {
        let name = path.display();
        let text = text(&path);
        let module = read(&text).unwrap_or_else(|errors| panic!("{}", errors.render(&name.to_string(), &text)));
        let printed = print(&module);
        let again = read(&printed).unwrap_or_else(|errors| panic!("{}", errors.render("printed", &printed)));
        assert!(again == module, "{name}");
        assert_eq!(print(&again), printed, "{name}");
        // XLA's long form has signatures; the others say the same in other words.
        if text.contains(") -> ") {
            for (ours, theirs) in blocks(&printed).iter().zip(blocks(&text)) {
                assert_eq!(*ours, theirs, "{name}");
            }
        }
        let short = print_with(&module, TextOptions::SHORT);
        let short = read(&short).unwrap_or_else(|errors| panic!("{}", errors.render("short", &short)));
        assert_eq!(short.functions.len(), module.functions.len(), "{name}");
    }
}
