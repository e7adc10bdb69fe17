//! Programs that are saved and loaded, and the cache on disk.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use halo::builder::HloBuilder;
use halo::{
    Client, ClientOptions, CompilationCache, CompileOptions, Executable, Literal, Module, Platform, Shape, Target,
    bundle,
};

use super::{CLIENT, compile};

pub(super) fn program(factor: f32) -> Module {
    let b = HloBuilder::new("saved");
    let x = b.parameter(0, Shape::of::<f32>([4]), "x");
    let table = b.constant([1f32, 2., 3., factor]);
    let total = b.reduce_all(x * table, b.constant(0f32), |_, x, y| x + y);
    b.build(b.tuple(&[x.exp(), total])).unwrap()
}

fn run(executable: &Executable) -> Literal {
    executable.execute(([0f32, 1., 2., 3.].as_slice(),)).unwrap()
}

pub(super) fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("halo-api-cache-{}-{number}", std::process::id()))
}

fn load(bytes: &[u8]) -> Result<Executable, String> {
    // SAFETY: the bytes are those of `serialize`, or such as the checks refuse.
    unsafe { CLIENT.deserialize(bytes) }.map_err(|error| error.to_string())
}

#[test]
fn a_saved_program_is_the_same_program() {
    let first = compile(&program(4.));
    let bytes = first.serialize();
    let second = load(&bytes).unwrap();
    assert_eq!(second.program_shape(), first.program_shape());
    assert_eq!(second.memory(), first.memory());
    assert_eq!(second.cost(), first.cost());
    drop(first);
    assert_eq!(run(&second), run(&compile(&program(4.))));
    assert_eq!(second.serialize(), bytes);
}

#[test]
fn code_does_not_depend_on_what_was_compiled_before() {
    let client = Client::with_threads(1).unwrap();
    let code = |module: &Module| client.compile(module, &CompileOptions::default()).unwrap().serialize();
    let (first, other) = (code(&program(4.)), code(&program(5.)));
    assert_ne!(first, other);
    assert_eq!(code(&program(4.)), first);
    client.release_unused_memory();
    assert_eq!(code(&program(5.)), other);
}

/// A program of many large kernels, no two of which are equal.
fn large_program() -> Module {
    let b = HloBuilder::new("large");
    let results: Vec<_> = (0..48)
        .map(|number| {
            let x = b.parameter(number, Shape::of::<f32>([1000 + number]), "x");
            x.exp() * x.tanh() + x.sin()
        })
        .collect();
    b.build(b.tuple(&results)).unwrap()
}

#[test]
fn the_code_does_not_depend_on_the_threads_that_compile_it() {
    let module = large_program();
    let inputs: Vec<Vec<f32>> = (0..48).map(|number| vec![number as f32 / 48.; 1000 + number]).collect();
    let compile = |compile_threads| {
        CLIENT.compile(&module, &CompileOptions { compile_threads, ..CompileOptions::default() }).unwrap()
    };
    let first = compile(1);
    let bytes = first.serialize();
    let objects = bytes.windows(4).filter(|window| window == b"\x7fELF").count();
    assert!(objects > 1, "code is generated in parts");
    for threads in [2, 8] {
        assert!(compile(threads).serialize() == bytes, "{threads} threads");
    }
    let second = load(&bytes).unwrap();
    assert_eq!(second.memory(), first.memory());
    let result = second.execute(inputs.as_slice()).unwrap();
    assert_eq!(result, first.execute(inputs.as_slice()).unwrap());
    for (input, result) in inputs.iter().zip(result.as_tuple().unwrap()) {
        let (x, found) = (input[0], result.as_slice::<f32>().unwrap());
        let expected = x.exp() * x.tanh() + x.sin();
        assert!(found.len() == input.len() && found.iter().all(|found| (found - expected).abs() < 1e-5));
    }
}

#[test]
fn damaged_and_foreign_bytes_are_refused() {
    let bytes = compile(&program(4.)).serialize();
    assert!(load(&[]).unwrap_err().contains("too short"));
    assert!(load(&[7; 100]).unwrap_err().contains("it is no saved executable"));
    for position in [9, 50, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        assert!(load(&damaged).unwrap_err().contains("it is damaged"), "{position}");
    }
    assert!(load(&bytes[..bytes.len() - 10]).unwrap_err().contains("it is damaged"));
}

/// Replaces a text of the same length, and the checksum.
fn changed(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    assert_eq!(old.len(), new.len());
    let mut content = bytes[..bytes.len() - 32].to_vec();
    let position = content.windows(old.len()).position(|window| window == old.as_bytes()).expect("the text");
    content[position..position + new.len()].copy_from_slice(new.as_bytes());
    let checksum = Sha256::digest(&content);
    content.extend(checksum);
    content
}

#[test]
fn other_versions_and_machines_are_refused() {
    let bytes = compile(&program(4.)).serialize();
    let version = env!("CARGO_PKG_VERSION");
    let other = format!("9{}", &version[1..]);
    assert!(load(&changed(&bytes, version, &other)).unwrap_err().contains("another version of halo made it"));
    assert!(load(&changed(&bytes, "x86_64", "mips64")).unwrap_err().contains("it was made for mips64"));
    // No processor that has the first has the second.
    let error = load(&changed(&bytes, "+fma,", "+tbm,")).unwrap_err();
    assert!(error.contains("it needs features that this CPU lacks: tbm"), "{error}");
}

#[test]
fn a_bundle_says_why_its_programs_are_refused() {
    let bytes = bundle(&program(4.), &CompileOptions::default(), &[(Platform::Cpu, Target::host())]).unwrap();
    let start = bytes.windows(8).position(|window| window == b"halo-exe").expect("a program");
    let version = env!("CARGO_PKG_VERSION");
    let other = changed(&bytes[start..], version, &format!("9{}", &version[1..]));
    let error = load(&[&bytes[..start], &other].concat()).unwrap_err();
    assert!(error.contains("nothing in the bundle runs here: another version of halo made it (9"), "{error}");
}

#[test]
fn the_cache_finds_what_was_compiled() {
    let cache = CompilationCache::new(folder(), 1 << 30).unwrap();
    let client = || {
        Client::with_options(ClientOptions { threads: 1, cache: Some(cache.clone()), ..ClientOptions::default() })
            .unwrap()
    };
    let options = CompileOptions::default();
    let first = client().compile(&program(4.), &options).unwrap();
    let second = client().compile(&program(4.), &options).unwrap();
    let other = client().compile(&program(5.), &options).unwrap();
    assert!(!first.is_from_cache() && second.is_from_cache() && !other.is_from_cache());
    assert_eq!(run(&first), run(&second));
    assert_ne!(run(&first), run(&other));
    // A file that is no program any more is compiled again.
    for entry in fs::read_dir(cache.directory()).unwrap() {
        fs::write(entry.unwrap().path(), b"damaged").unwrap();
    }
    let third = client().compile(&program(4.), &options).unwrap();
    assert!(!third.is_from_cache());
    assert_eq!(run(&third), run(&first));
    assert!(client().compile(&program(4.), &options).unwrap().is_from_cache());
    fs::remove_dir_all(cache.directory()).unwrap();
}

/// Names the cache for [`a_process_that_compiles`].
const CACHE: &str = "HALO_TEST_CACHE";

#[test]
#[ignore = "started as a process by the test below"]
fn a_process_that_compiles() {
    let Some(directory) = std::env::var_os(CACHE) else { return };
    let cache = Some(CompilationCache::new(directory, 1 << 30).unwrap());
    let client = Client::with_options(ClientOptions { threads: 1, cache, ..ClientOptions::default() }).unwrap();
    for round in 0..3 {
        for factor in 0..5 {
            let executable = client.compile(&program(factor as f32), &CompileOptions::default()).unwrap();
            assert!(round == 0 || executable.is_from_cache());
            let result = run(&executable);
            let total = result.as_tuple().unwrap()[1].as_slice::<f32>().unwrap()[0];
            assert_eq!(total, 2. + 6. + 3. * factor as f32);
        }
    }
}

#[test]
fn processes_share_a_cache() {
    let cache = CompilationCache::new(folder(), 1 << 30).unwrap();
    let start = || {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "saved::a_process_that_compiles", "--ignored", "--nocapture"])
            .env(CACHE, cache.directory())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..4).map(|_| start()).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let kept = fs::read_dir(cache.directory()).unwrap().count();
    assert_eq!(kept, 5, "one file for each program");
    fs::remove_dir_all(cache.directory()).unwrap();
}

#[test]
fn code_has_the_lines_of_its_program_where_they_are_asked_for() {
    let text = "HloModule m\nENTRY e {\n  i = f32[1000] iota(), iota_dimension=0\n  ROOT c = f32[1000] cosine(i)\n}";
    let client = Client::with_threads(1).unwrap();
    let compile = |debug_info| {
        let program = client.compile(text, &CompileOptions { debug_info, ..CompileOptions::default() }).unwrap();
        let has_lines = program.serialize().windows(12).any(|bytes| bytes == b".debug_line\0");
        (has_lines, program.execute(()).unwrap())
    };
    let (has_lines, result) = compile(Some("m.hlo".into()));
    assert!(has_lines);
    assert_eq!(compile(None), (false, result));
}
