//! The tools as a user meets them: transcripts of commands with their output and exit status.
//!
//! `TRYCMD=overwrite` rewrites the transcripts.

use std::path::{Path, PathBuf};

/// Lets relative paths start at the root of the repository, as in the documentation.
fn at_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root).expect("the repository");
    root
}

#[test]
fn transcripts() {
    at_root();
    trycmd::TestCases::new().case("test-files/command-line/*.trycmd");
}

/// Ctrl-C ends compiled code and the interpreter alike, with a message.
#[cfg(unix)]
#[test]
fn an_interrupted_run_says_so() {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    for engine in ["jit", "interpreter"] {
        let program = at_root().join("test-files/command-line/reliability.in/endless.hlo");
        let mut run = Command::new(env!("CARGO_BIN_EXE_hlo-run"));
        run.arg(program).args(["--engine", engine]).stderr(Stdio::piped());
        // A shell's background jobs ignore the signal, and so do their children.
        // SAFETY: `signal` may be called between fork and exec.
        unsafe {
            run.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let run = run.spawn().expect("hlo-run");
        let status = format!("/proc/{}/status", run.id());
        let handles_it = || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
            u64::from_str_radix(caught, 16).unwrap_or(0) & 1 << (libc::SIGINT - 1) != 0
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !handles_it() {
            assert!(Instant::now() < deadline, "the signal is not handled");
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(run.id() as libc::pid_t, libc::SIGINT) }, 0);
        let output = run.wait_with_output().expect("its output");
        assert_eq!(output.status.code(), Some(130), "{engine}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "\nerror: interrupted\n");
    }
}

/// What is printed where nobody takes it: a full disk is an error of one line, a pipe that is closed is none.
#[cfg(target_os = "linux")]
#[test]
fn output_that_nobody_takes() {
    use std::process::{Command, Stdio};
    let root = at_root();
    let add = root.join("test-files/command-line/run.in/add.hlo");
    let add = add.to_str().expect("a path of text");
    let commands = [
        (env!("CARGO_BIN_EXE_hlo-run"), vec![add, "--random-inputs", "1"]),
        (env!("CARGO_BIN_EXE_hlo-run"), vec!["--help"]),
        (env!("CARGO_BIN_EXE_hlo-opt"), vec![add, "--emit=asm"]),
        (env!("CARGO_BIN_EXE_hlo-opt"), vec!["--list-passes"]),
    ];
    for (tool, arguments) in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the device");
        let output = Command::new(tool).args(&arguments).stdout(full).output().expect("the tool");
        let message = String::from_utf8_lossy(&output.stderr);
        if arguments != ["--help"] {
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
            assert!(message.starts_with("error: ") && message.lines().count() == 1, "{arguments:?}: {message}");
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(tool).args(&arguments).stdout(Stdio::from(writer)).output().expect("the tool");
        let message = String::from_utf8_lossy(&output.stderr);
        // 141 is what shells report of a program that SIGPIPE ends.
        assert!(output.status.code().is_some_and(|status| [0, 141].contains(&status)), "{arguments:?}: {message}");
        assert_eq!(message, "", "{arguments:?}");
    }
}

/// The commands in the documentation, where `./x run` is `hlo-run`.
#[test]
fn documentation() {
    let root = at_root();
    let tools = Path::new(env!("CARGO_BIN_EXE_hlo-run")).parent().expect("a folder of binaries");
    let cases = trycmd::TestCases::new();
    cases.register_bin("./x", root.join("x"));
    cases.env("HALO_BIN", tools.display().to_string());
    for page in ["README.md", "docs/*.md"] {
        cases.case(page);
    }
}
