//! Compilation goes on from a dump after any pass, and gives the same object, byte for byte. Besides a few programs,
//! every file of `test-files/models` and `test-files/run` is compiled so with `HALO_ALL_DUMPS`.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use lowering_llvm::Target;
use mlir_ext::pass::{self, Anchor, PassDefinition};
use tools::emit::{self, CodePlatform, EmitOptions, Output, Stage};
use tools::module_file::SourceText;
use tools::outer_boundary;

/// Programs with control flow, contractions, reductions, library calls and dynamic sizes.
const PROGRAMS: [&str; 4] =
    ["models/mnist_mlp_sgd.hlo", "models/gru_scan.hlo", "models/black_scholes.hlo", "lower/levels.hlo"];

pub fn trials(root: &Path) -> Vec<Trial> {
    let mut programs: Vec<PathBuf> = PROGRAMS.iter().map(|name| root.join(name)).collect();
    if std::env::var_os("HALO_ALL_DUMPS").is_some() {
        for folder in ["models", "run"] {
            super::find_files(&root.join(folder), &mut programs);
        }
    }
    let mut trials: Vec<Trial> = programs
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap_or(&path).with_extension("").display().to_string();
            Trial::test(format!("dumps of {name}"), move || check(&path).map_err(Failed::from))
        })
        .collect();
    trials.push(Trial::test("a pass that panics is a bug", || a_panic_is_a_bug().map_err(Failed::from)));
    trials
}

fn check(path: &Path) -> Result<(), String> {
    let text = SourceText::read(path).map_err(|error| error.render())?;
    let is_program = |part: &SourceText| part.module().is_ok();
    for (number, part) in text.split().into_iter().filter(is_program).enumerate() {
        let name = path.display().to_string().replace('/', "_");
        let folder = std::env::temp_dir().join(format!("halo-dumps-{}-{name}-{number}", std::process::id()));
        let result = check_program(&part, &folder);
        let _ = std::fs::remove_dir_all(&folder);
        result?;
    }
    Ok(())
}

fn check_program(text: &SourceText, folder: &Path) -> Result<(), String> {
    let mut options = EmitOptions::new(Stage::Obj, CodePlatform::Cpu, Target::host());
    options.target = None;
    options.trace.dump = Some(folder.to_path_buf());
    let expected = match emit::emit(text, &options) {
        Ok(object) => object,
        Err(error) if error.exit_status() == outer_boundary::INVALID => return Ok(()),
        Err(error) => return Err(error.render()),
    };
    options.trace.dump = None;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    if files.len() < 10 {
        return Err(format!("only {} dumps", files.len()));
    }
    for file in files {
        let dump = SourceText::read(&file).map_err(|error| error.render())?;
        let object = emit::emit(&dump, &options).map_err(|error| format!("{}: {}", file.display(), error.render()))?;
        if object != expected {
            return Err(format!("{} gives another object", file.display()));
        }
    }
    Ok(())
}

fn a_panic_is_a_bug() -> Result<(), String> {
    pass::register([PassDefinition {
        argument: "test-panic",
        description: "panics",
        anchor: Anchor::Module,
        options: &[],
        dialects: &[],
        body: Box::new(|_, _, _| panic!("no way on")),
    }]);
    let text = SourceText { path: "m.hlo".into(), text: "HloModule m\nENTRY e { ROOT a = f32[] parameter(0) }".into() };
    let mut options = EmitOptions::new(Stage::Hlo, CodePlatform::Cpu, Target::host());
    options.output = Output::Program;
    options.passes = "test-panic".into();
    match emit::emit(&text, &options) {
        Err(error) if error.exit_status() == outer_boundary::BUG && error.render().contains("`test-panic`") => Ok(()),
        Err(error) => Err(error.render()),
        Ok(_) => Err("the pass did not panic".into()),
    }
}
