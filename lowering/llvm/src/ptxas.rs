//! NVIDIA's assembler, where the machine has it: PTX to a binary ("cubin"). The driver can do the same at load time, so
//! this serves tests and tools that want errors without a GPU.

use crate::Error;
use std::{
    env, fs,
    io::ErrorKind,
    path::PathBuf,
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

/// The assembler: `$HALO_PTXAS`, else `ptxas` on the path; none if it cannot be started.
pub fn find() -> Option<PathBuf> {
    let candidate = env::var_os("HALO_PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    let started = Command::new(&candidate).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    matches!(started, Ok(status) if status.success()).then_some(candidate)
}

/// Assembles PTX for `chip` (such as `sm_90`); `None` if there is no assembler.
///
/// # Errors
/// [`Error::Assembler`] with what it printed.
pub fn assemble(ptx: &str, chip: &str) -> Result<Option<Vec<u8>>, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Some(ptxas) = find() else { return Ok(None) };
    let failed = |error: std::io::Error| Error::Assembler(error.to_string());
    let unique = format!("halo-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let directory = env::temp_dir().join(unique);
    fs::create_dir(&directory).map_err(failed)?;
    let (input, output) = (directory.join("kernels.ptx"), directory.join("kernels.cubin"));
    let result = fs::write(&input, ptx).map_err(failed).and_then(|()| {
        let run = Command::new(ptxas)
            .arg(format!("--gpu-name={chip}"))
            .arg("--output-file")
            .arg(&output)
            .arg(&input)
            .output()
            .map_err(failed)?;
        if run.status.success() {
            fs::read(&output).map(Some).map_err(failed)
        } else {
            let mut said = String::from_utf8_lossy(&run.stderr).into_owned();
            said.push_str(&String::from_utf8_lossy(&run.stdout));
            Err(Error::Assembler(said))
        }
    });
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => result.and(Err(failed(error))),
        _ => result,
    }
}
