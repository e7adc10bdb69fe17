//! One executable, one cache folder and one client, used by many threads of several processes at once.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use halo::{Client, ClientOptions, CompilationCache, CompileOptions, Executable};

use super::compile;
use super::saved::{folder, program};

const PROCESSES: usize = 3;
const THREADS: usize = 8;
const ROUNDS: usize = 6;
/// More programs than the cache has room for, so that entries go while others read them.
const PROGRAMS: usize = 5;

/// Names the folder for [`a_process_of_many_threads`].
const FOLDER: &str = "HALO_TEST_STRESS";

const EXECUTABLE: &str = "program.bin";

/// What [`program`] gives for `[x, x, x, x]`: the last of the exponentials, and the sum.
fn expected(factor: f32, x: f32) -> (f32, f32) {
    (x.exp(), x * (6. + factor))
}

fn check(executable: &Executable, factor: f32, x: f32) {
    let (exponential, total) = expected(factor, x);
    let close = |found: f32, expected: f32| assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.));
    let results = executable.execute_buffers(([x; 4].as_slice(),)).unwrap();
    close(results[0].as_slice::<f32>().unwrap()[3], exponential);
    close(results[1].as_slice::<f32>().unwrap()[0], total);
    let pending = executable.execute_async(([x; 4].to_vec(),)).unwrap().wait().unwrap();
    close(pending[1].as_slice::<f32>().unwrap()[0], total);
}

#[test]
#[ignore = "started as a process by the test below"]
fn a_process_of_many_threads() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let bytes = std::fs::read(folder.join(EXECUTABLE)).unwrap();
    let cache = CompilationCache::new(folder.join("cache"), 4 * bytes.len() as u64).unwrap();
    let client =
        Client::with_options(ClientOptions { threads: 3, cache: Some(cache), ..ClientOptions::default() }).unwrap();
    // SAFETY: the parent wrote the file.
    let shared = unsafe { client.deserialize(&bytes) }.unwrap();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (client, shared, bytes) = (&client, &shared, &bytes);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let x = (number * ROUNDS + round) as f32 / 16.;
                    let factor = ((number + round) % PROGRAMS) as f32;
                    check(&client.compile(&program(factor), &CompileOptions::default()).unwrap(), factor, x);
                    check(shared, 4., x);
                    // SAFETY: as above.
                    check(&unsafe { client.deserialize(bytes) }.unwrap(), 4., x);
                }
            });
        }
    });
}

#[test]
fn threads_of_processes_share_everything() {
    let folder = folder();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(EXECUTABLE), compile(&program(4.)).serialize()).unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stress::a_process_of_many_threads", "--ignored", "--nocapture"])
            .env(FOLDER, &folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A program that runs for as long as the other end does not tell it to stop, and one that meanwhile runs often.
#[test]
fn a_program_does_not_wait_for_another_to_end() {
    let client = Client::with_threads(3).unwrap();
    let compile = |text: &str| client.compile(text, &CompileOptions::default()).unwrap();
    // Each step has a loop that takes the client's threads, and reads whether to go on.
    let long = compile(
        "HloModule long
        condition { s = (pred[], f32[65536]) parameter(0) ROOT c = pred[] get-tuple-element(s), index=0 }
        body {
          s = (pred[], f32[65536]) parameter(0)
          x = f32[65536] get-tuple-element(s), index=1
          t = token[] after-all()
          i = (pred[], token[]) infeed(t)
          c = pred[] get-tuple-element(i), index=0
          y = f32[65536] sine(x)
          ROOT r = (pred[], f32[65536]) tuple(c, y)
        }
        ENTRY e {
          x = f32[65536] parameter(0)
          c = pred[] constant(true)
          s = (pred[], f32[65536]) tuple(c, x)
          w = (pred[], f32[65536]) while(s), condition=condition, body=body
          ROOT y = f32[65536] get-tuple-element(w), index=1
        }",
    );
    let short = compile("HloModule short\nENTRY e { x = f32[65536] parameter(0) ROOT y = f32[65536] exponential(x) }");
    let input = vec![0.5f32; 65536];
    let infeed = long.infeed();
    let running = long.execute_async((input.clone(),)).unwrap();
    for round in 0..20 {
        infeed.push(&true.into()).unwrap();
        let result = match round % 2 {
            0 => short.execute_buffers((&input,)).unwrap(),
            _ => short.execute_async((input.clone(),)).unwrap().wait().unwrap(),
        };
        assert!(result[0].as_slice::<f32>().unwrap().iter().all(|&y| (y - 0.5f32.exp()).abs() < 1e-5));
        assert!(!running.is_done());
    }
    infeed.push(&false.into()).unwrap();
    let last = running.wait().unwrap()[0].as_slice::<f32>().unwrap()[0];
    assert!(last > 0. && last < 0.5);
}
