//! Projects elsewhere that depend on halo, as users make them. They are built from nothing, which takes minutes, so
//! `./x dependents` runs them, not `cargo test` alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use halo::builder::{FftType, HloBuilder};
use halo::{CompileOptions, Platform, Shape, Target};

/// What runs bundles reads arrays and options, and has transforms; factorisations only if it is built with these.
const MOST_RUNNER_BYTES: u64 = 5_000_000;

/// A program with the runtime alone has no compiler in it, and no transforms and factorisations unless it asks for these.
const MOST_RUNTIME_BYTES: u64 = 2_000_000;

const COMPILES: &str = r#"
use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, Shape};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let b = HloBuilder::new("quickstart");
    let x = b.parameter(0, Shape::of::<f32>([3]), "x");
    let program = b.build(x * 2.0 + 1.0)?;
    let executable = Client::cpu()?.compile(&program, &CompileOptions::default())?;
    println!("{}", executable.execute(([0.5f32, 1.0, 1.5].as_slice(),))?);
    std::fs::write(std::env::args().nth(1).ok_or("the file to write")?, executable.serialize())?;
    Ok(())
}
"#;

const RUNS: &str = r#"
use halo::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(std::env::args().nth(1).ok_or("the file to read")?)?;
    // SAFETY: the file was written by a program that trusts itself.
    let executable = unsafe { Client::cpu()?.deserialize(&bytes)? };
    println!("{}", executable.execute(([2f32, 3.0, 4.0].as_slice(),))?);
    Ok(())
}
"#;

/// A project of one file outside of the repository.
struct Project(PathBuf);

impl Project {
    fn new(name: &str, dependency: &str, main: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("halo-dependents-{}", std::process::id())).join(name);
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nhalo = {dependency}\n\n\
             [profile.release]\nstrip = true\n"
        );
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/main.rs"), main).unwrap();
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        Project(folder)
    }

    /// Runs cargo as a user's shell does, without what this repository's `.cargo/config.toml` sets.
    fn cargo(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(&self.0)
            .env_remove("MLIR_SYS_220_PREFIX")
            .env_remove("TABLEGEN_220_PREFIX")
            .env_remove("LLVM_SYS_221_PREFIX")
            .env_remove("RUSTFLAGS")
            .env("CARGO_TARGET_DIR", root().join("target/dependents"))
            .output()
            .unwrap()
    }

    fn binary(&self) -> PathBuf {
        root().join("target/dependents/release").join(self.0.file_name().unwrap())
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a project's program prints; a failure shows what cargo said.
fn run(project: &Project, argument: &Path) -> String {
    let output = project.cargo(&["run", "--release", "--quiet", "--", &argument.display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "builds everything twice: ./x dependents"]
fn projects_elsewhere_compile_and_run() {
    let here = root().display();
    let compiles = Project::new("compiles", &format!("{{ path = \"{here}\" }}"), COMPILES);
    let output = compiles.cargo(&["build", "--release"]);
    if !output.status.success() {
        // Where `llvm-config` is of another version, halo says what to write, and that is enough.
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        println!("{message}");
        let lines = message.lines().map(str::trim).skip_while(|line| *line != "[env]");
        let settings: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        assert_eq!(settings.len(), 3, "{message}");
        fs::create_dir_all(compiles.0.join(".cargo")).unwrap();
        fs::write(compiles.0.join(".cargo/config.toml"), settings.join("\n")).unwrap();
    }
    let saved = compiles.0.join("program.bin");
    assert_eq!(run(&compiles, &saved), "{2, 3, 4}\n");

    let runs = Project::new("runs", &format!("{{ path = \"{here}\", default-features = false }}"), RUNS);
    assert_eq!(run(&runs, &saved), "{5, 7, 9}\n");
    let size = |project: &Project| fs::metadata(project.binary()).unwrap().len();
    println!("with the compiler: {} bytes; with the runtime alone: {} bytes", size(&compiles), size(&runs));
    assert!(size(&runs) < MOST_RUNTIME_BYTES, "{} bytes", size(&runs));
}

/// Runs cargo in the repository, for a package by itself: features of others would be its own.
fn build_runner() -> PathBuf {
    let folder = root().join("target");
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--profile",
            "small",
            "--package",
            "halo-data",
            "--features",
            "runner",
            "--bin",
            "hlo-run-bundle",
        ])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", &folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("small/hlo-run-bundle")
}

#[test]
#[ignore = "builds everything twice: ./x dependents"]
fn bundles_run_without_a_compiler() {
    let runner = build_runner();
    let size = fs::metadata(&runner).unwrap().len();
    println!("hlo-run-bundle: {size} bytes");
    assert!(size < MOST_RUNNER_BYTES, "{size} bytes");
    let folder = std::env::temp_dir().join(format!("halo-bundles-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let platforms = [(Platform::Cpu, Target::host()), (Platform::CudaEmulator, Target::host())];
    let b = HloBuilder::new("test");
    let x = b.parameter(0, Shape::of::<f32>([3, 3]), "x");
    let write = |name: &str, result| {
        let bundle = halo::bundle(&b.build(result).unwrap(), &CompileOptions::default(), &platforms).unwrap();
        fs::write(folder.join(name), bundle).unwrap();
    };
    // Library calls, too: one that is there, and one that is not.
    write("program.halo", b.tuple(&[x + 1.0, b.fft(x, FftType::Rfft, &[3])]));
    write("factors.halo", b.cholesky(x.dot(x) * 0.01 + 1.0, true));
    let run = |arguments: &[&str]| {
        let output = Command::new(&runner).args(arguments).current_dir(&folder).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (output.status.code(), text)
    };
    let (status, first) = run(&["program.halo", "--random-inputs=1"]);
    assert_eq!(status, Some(0), "{first}");
    assert!(first.starts_with("f32[3,3]") && first.lines().count() == 2, "{first}");
    let (status, text) = run(&["program.halo", "--random-inputs=1", "--output-dir=out"]);
    assert_eq!((status, text.as_str()), (Some(0), ""));
    for platform in ["cpu", "cuda-emulator"] {
        let platform = format!("--platform={platform}");
        let (status, text) =
            run(&["program.halo", "--random-inputs=1", "--expected=out", "--time", "--repeat=3", &platform]);
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains("output 1 c64[3,2]: agrees") && text.contains("least"), "{text}");
    }
    let (status, text) = run(&["program.halo", "--random-inputs=2", "--expected=out"]);
    assert!(status == Some(1) && text.contains("DIFFERS"), "{text}");
    let (status, text) = run(&["program.halo", "--random-inputs=1", "--platform=cuda"]);
    assert!(status == Some(0) || text.contains("GPU"), "{text}");
    let (status, text) = run(&["out/out_0.npy", "--random-inputs=1"]);
    assert!(status == Some(2) && text.contains("it is no saved executable"), "{text}");
    let (status, text) = run(&["factors.halo", "--random-inputs=1"]);
    assert!(status != Some(0) && text.contains("halo's feature `linear-algebra`"), "{text}");
    let (status, text) = run(&["factors.halo", "--random-inputs=1", "--platform=cuda-emulator"]);
    assert_eq!(status, Some(0), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}
