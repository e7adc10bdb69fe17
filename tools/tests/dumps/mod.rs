//! Compilation goes on from a dump after any pass, and gives the same object, byte for byte. Besides a few programs,
//! every file of `test-files/models` and `test-files/run` is compiled so with `HALO_ALL_DUMPS`. From the affine level on,
//! upstream's own tool reads and verifies the dumps, where it is installed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use lowering_llvm::Target;
use mlir_ext::pass::{self, Anchor, PassDefinition};
use tools::emit::{self, CodePlatform, EmitOptions, Output, Stage};
use tools::module_file::SourceText;
use tools::outer_boundary;

/// Programs of every kind of lowering: control flow, contractions, windows, reductions and scans, gathers and scatters, library
/// calls, several devices, dynamic sizes, arrays without elements.
const PROGRAMS: [&str; 13] = [
    "models/mnist_mlp_sgd.hlo",
    "models/gru_scan.hlo",
    "models/black_scholes.hlo",
    "lower/levels.hlo",
    "lower/empty_arrays.hlo",
    "lower/index_arithmetic.hlo",
    "lower/library_calls.hlo",
    "run/conditional.hlo",
    "run/contraction_types.hlo",
    "run/gather.hlo",
    "run/get_dimension_size.hlo",
    "run/reduce_window.hlo",
    "run/send_recv.hlo",
];

/// The pass after which upstream's tool knows every operation.
const LAST_OF_HLO: &str = "hlo-to-affine";

/// Upstream's tool for MLIR.
const UPSTREAM: &str = "mlir-opt-22";

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
    trials.push(Trial::test("lines of the program are in its code", || lines_are_in_code().map_err(Failed::from)));
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
    let lowered = files.iter().position(|file| file.display().to_string().contains(LAST_OF_HLO));
    let lowered = lowered.ok_or_else(|| format!("no dump after `{LAST_OF_HLO}`"))?;
    read_upstream(&files[lowered..])?;
    for file in files {
        let dump = SourceText::read(&file).map_err(|error| error.render())?;
        let object = emit::emit(&dump, &options).map_err(|error| format!("{}: {}", file.display(), error.render()))?;
        if object != expected {
            return Err(format!("{} gives another object", file.display()));
        }
    }
    Ok(())
}

/// Whether upstream's tool, if it is there, reads and verifies files.
fn read_upstream(files: &[PathBuf]) -> Result<(), String> {
    for file in files {
        let output = match Command::new(UPSTREAM).arg(file).args(["-o", "/dev/null"]).output() {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: `{UPSTREAM}` is not installed");
                return Ok(());
            }
            Err(error) => return Err(format!("{UPSTREAM}: {error}")),
        };
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{UPSTREAM} does not read {}: {message}", file.display()));
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

/// A reduction of a fusion, each instruction on a line of its own.
const LINES: &str = "HloModule m
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[64,512] parameter(0)
  zero = f32[] constant(0)
  a = f32[64,512] add(p, p), metadata={source_file=\"model.py\" source_line=77}
  e = f32[64,512] exponential(a)
  ROOT r = f32[64] reduce(e, zero), dimensions={1}, to_apply=sum
}
";

fn lines_are_in_code() -> Result<(), String> {
    let text = SourceText { path: "folder/program.hlo".into(), text: LINES.into() };
    let emit = |text: &SourceText, stage, platform, target, debug_info| {
        let options = EmitOptions { debug_info, ..EmitOptions::new(stage, platform, target) };
        emit::emit(text, &options).map_err(|error| error.render())
    };
    let cpu = |stage, debug_info| emit(&text, stage, CodePlatform::Cpu, Target::host(), debug_info);
    let ir = String::from_utf8_lossy(&cpu(Stage::Llvm, true)?).into_owned();
    let is_there = |text: &str, part: &str| text.contains(part).then_some(()).ok_or(format!("no `{part}` in\n{text}"));
    is_there(&ir, "!DIFile(filename: \"program.hlo\", directory: \"folder\")")?;
    is_there(&ir, "distinct !DISubprogram(name: \"fusion.1\", linkageName: \"fusion.1\"")?;
    for place in ["line: 6, column: 3", "line: 7, column: 3", "line: 8, column: 8"] {
        is_there(&ir, &format!("!DILocation({place}, scope:"))?;
    }
    let object = cpu(Stage::Obj, true)?;
    let has_lines = |object: &[u8]| object.windows(12).any(|bytes| bytes == b".debug_line\0");
    if !has_lines(&object) || has_lines(&cpu(Stage::Obj, false)?) {
        return Err("object files have line tables where these are asked for".into());
    }
    let elementwise = LINES
        .replace("ROOT r = f32[64] reduce(e, zero), dimensions={1}, to_apply=sum", "ROOT n = f32[64,512] negate(e)");
    let ptx = emit(
        &SourceText { text: elementwise.into(), ..text.clone() },
        Stage::Ptx,
        CodePlatform::Cuda,
        Target::nvptx("sm_90", "+ptx80"),
        true,
    )?;
    is_there(&String::from_utf8_lossy(&ptx), ".loc")
}
