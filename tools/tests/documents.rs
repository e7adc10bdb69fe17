//! What the documents say is so: paths that they name exist, samples are programs that run, tables are made from code.
//!
//! `HALO_BLESS=1` rewrites the tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use halo::pipeline::{CPU, CUDA, Phase};
use mlir_ext::pipeline_text::PipelineText;
use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents, from the root.
fn documents() -> Vec<PathBuf> {
    let mut documents: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "conformance/README.md"].map(PathBuf::from).to_vec();
    let guides = std::fs::read_dir(root().join("docs")).expect("a folder").flatten();
    documents.extend(guides.map(|entry| Path::new("docs").join(entry.file_name())));
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.sort();
    documents
}

/// Every file and folder of the repository that is no output, from the root.
fn everything() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder").flatten() {
            let path = folder.join(entry.file_name());
            if matches!(path.to_str(), Some("target" | "build" | ".git" | "shared")) {
                continue;
            }
            if entry.path().is_dir() {
                folders.push(path.clone());
            }
            found.insert(path.display().to_string());
        }
    }
    found
}

#[test]
fn paths_in_documents_exist() {
    let link = Regex::new(r"\]\(([^)#]+)[^)]*\)").expect("a pattern");
    let quoted =
        Regex::new(r"`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]*)+|[a-z0-9_]+\.(?:rs|md|py|toml|td))`").expect("a pattern");
    let everything = everything();
    let mut faults = Vec::new();
    for document in documents() {
        let text = read(&root().join(&document));
        let folder = root().join(document.parent().unwrap_or(Path::new("")));
        for found in link.captures_iter(&text) {
            if !found[1].contains("://") && !folder.join(&found[1]).exists() {
                faults.push(format!("{} links to `{}`, which does not exist", document.display(), &found[1]));
            }
        }
        for found in quoted.captures_iter(&text) {
            // The end of a path is enough where the text has said in which folder; capitals stand for any name.
            let path = found[1].trim_end_matches('/');
            let end = format!("/{path}");
            let is_pattern =
                path.split(['/', '.']).any(|part| part.len() > 2 && part.chars().all(|c| c.is_ascii_uppercase()));
            let exists = is_pattern
                || everything.contains(path)
                || folder.join(path).exists()
                || everything.iter().any(|known| known.ends_with(&end));
            if !exists {
                faults.push(format!("{} names `{}`, which does not exist", document.display(), &found[1]));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_readme_shows_the_first_example() {
    let readme = read(&root().join("README.md"));
    let sample = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a sample");
    let sample: Vec<&str> = sample.lines().map(str::trim).collect();
    let example = read(&root().join("examples/quickstart.rs"));
    let lines: Vec<&str> = example.lines().map(str::trim).collect();
    let is_part = lines.windows(sample.len()).any(|part| part == sample);
    assert!(is_part, "the sample of README.md is no part of examples/quickstart.rs:\n{}", sample.join("\n"));
}

/// The pipelines, phase by phase.
fn pipelines() -> String {
    let passes = |pipeline: &[(Phase, &str)], phase: Phase| {
        let texts = pipeline.iter().filter(|(of, _)| *of == phase);
        let steps = texts.flat_map(|(_, text)| PipelineText::parse(text).steps);
        steps.map(|step| format!("`{}`", step.name())).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::from("| phase | passes for a CPU | passes for a GPU |\n|---|---|---|\n");
    for phase in Phase::ALL.into_iter().filter(|phase| *phase > Phase::Input) {
        let (cpu, cuda) = (passes(CPU, phase), passes(CUDA, phase));
        let cuda = if cuda == cpu { "the same".to_string() } else { cuda };
        text.push_str(&format!("| `{phase}` | {cpu} | {cuda} |\n"));
    }
    text
}

#[test]
fn the_overview_has_the_pipelines() {
    let path = root().join("ARCHITECTURE.md");
    let text = read(&path);
    let (begin, end) = ("<!-- pipelines: ./x bless makes this table -->\n", "<!-- end of pipelines -->");
    let (before, rest) = text.split_once(begin).expect("a beginning");
    let (table, after) = rest.split_once(end).expect("an end");
    let expected = pipelines();
    if std::env::var_os("HALO_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).expect("a file to write");
    } else {
        assert_eq!(table, expected, "the table of pipelines is old: ./x bless pipelines");
    }
}
