//! Many programs, each with what it should compute.

use std::path::{Path, PathBuf};
use std::process::Command;

use halo::Client;

use crate::run::{self, Inputs, RunError, Settings};
use crate::{DIFFERS, INVALID};

/// Runs the program of each folder but for the first `skip`, prints those that are not right, and how many are. After one that
/// failed, another process goes on: a kernel that faults takes its process's GPU with it. Gives the exit status.
///
/// # Errors
/// For a folder that cannot be read.
pub(crate) fn run_all(client: &Client, platform: &str, folder: &Path, skip: usize) -> Result<u8, RunError> {
    let folders = run::folders(folder)?;
    let (mut status, mut right) = (0, 0);
    for (number, folder) in folders.iter().enumerate().skip(skip) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        match run_case(client, folder) {
            Ok(None) => right += 1,
            Ok(Some(difference)) => {
                println!("{name}: {difference}");
                status = DIFFERS;
            }
            Err(error) => {
                println!("{name}: {error}");
                println!("{right} right of {}", number + 1 - skip);
                let others = others(platform, folder.parent().unwrap_or(folder), number + 1);
                return Ok(others.map_or(INVALID, |status| status.max(INVALID)));
            }
        }
    }
    println!("{right} right of {}", folders.len().saturating_sub(skip));
    Ok(status)
}

/// Runs the cases behind one that failed.
fn others(platform: &str, folder: &Path, skip: usize) -> Option<u8> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    command.args(["--platform", platform, "--skip", &skip.to_string(), "--cases"]).arg(folder);
    command.status().ok()?.code().and_then(|status| u8::try_from(status).ok())
}

/// What of a case is not as it should be.
fn run_case(client: &Client, folder: &Path) -> Result<Option<String>, RunError> {
    let spec = folder.join("spec.json");
    let inputs = match spec.is_file() {
        true => Inputs::Described(spec),
        false => Inputs::Files(numbered(folder, "in")),
    };
    let is_expected = !numbered(folder, "out").is_empty();
    let expected = is_expected.then(|| folder.to_path_buf());
    let settings = Settings { repeat: 1, expected, ..Settings::default() };
    let report = run::run(client, &folder.join("program.halo"), &inputs, &settings)?;
    let difference = report.comparisons.iter().find(|comparison| !comparison.agrees());
    Ok(difference.map(|comparison| comparison.to_string()))
}

/// Files such as `in_0.npy`, `in_1.npy`, as many as there are.
fn numbered(folder: &Path, name: &str) -> Vec<PathBuf> {
    (0..).map(|number| folder.join(format!("{name}_{number}.npy"))).take_while(|path| path.is_file()).collect()
}
