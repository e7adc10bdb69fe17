//! Programs from files: HLO text, protocol buffers, the `hlo` dialect's text; plain or compressed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use hlo::dialect::{self, DialectError};
use hlo::graph::{Module, TextPosition};
use hlo::text::proto;

use crate::error::ToolError;
use crate::npy;

/// First bytes of what gzip compressed.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// First bytes of a saved executable.
const SAVED: &[u8] = b"halo-exe";

/// First bytes of a bundle.
const BUNDLE: &[u8] = b"halo-bdl";

/// What the file of a program holds.
pub enum ProgramFile {
    /// A saved executable or a bundle.
    Compiled(Vec<u8>),
    /// A program to compile.
    Source(SourceText),
}

impl ProgramFile {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// For files that cannot be read or hold no program.
    pub fn read(path: &Path) -> Result<Self, ToolError> {
        let bytes = read_bytes(path)?;
        if [SAVED, BUNDLE].iter().any(|beginning| bytes.starts_with(beginning)) {
            return Ok(ProgramFile::Compiled(bytes));
        }
        SourceText::from_bytes(path, bytes).map(ProgramFile::Source)
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|source| ToolError::read(path, source))?;
    Ok(bytes)
}

/// First bytes of what is no program, and what it is.
const OTHER_FILES: [(&[u8], &str); 8] = [
    (npy::MAGIC, "an array of NumPy (given with --input)"),
    (b"PK\x03\x04", "a zip or npz archive (given with --inputs)"),
    (SAVED, "a saved executable (run by hlo-run, loaded with Client::deserialize)"),
    (BUNDLE, "a bundle (run by hlo-run, loaded with Client::deserialize)"),
    (b"\x7fELF", "compiled code"),
    (b"ML\xefR", "MLIR bytecode (mlir-opt prints it as text)"),
    (b"\xff\xfe", "text in UTF-16 (save it as UTF-8)"),
    (b"\xfe\xff", "text in UTF-16 (save it as UTF-8)"),
];

/// How text that looks like JSON may come to be given as a program.
const NOT_HLO: &str = "this is no HLO text but rather JSON, a Python dict or a jaxpr; \
                       JAX prints HLO text with jax.jit(f).lower(…).compile().as_text()";

/// Dialects of programs before they are HLO.
const BEFORE_HLO: [&str; 5] = ["`stablehlo'", "`mhlo'", "`chlo'", "`vhlo'", "`sdy'"];

/// A text as it was read, with the name messages give it.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// Where it came from; `-` for standard input.
    pub path: PathBuf,
    /// The text.
    pub text: Arc<str>,
}

impl SourceText {
    /// Reads a file, decompressing what gzip compressed; `-` is standard input. Of a protocol buffer the text is that of
    /// its program.
    pub fn read(path: &Path) -> Result<Self, ToolError> {
        Self::from_bytes(path, read_bytes(path)?)
    }

    fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, ToolError> {
        let is_named_so = path.extension().is_some_and(|extension| extension == "gz");
        let bytes = if is_named_so || bytes.starts_with(GZIP) {
            let mut decompressed = Vec::new();
            let read = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut decompressed);
            read.map_err(|source| ToolError::read(path, source))?;
            decompressed
        } else {
            bytes
        };
        let is_named_proto = path.extension().is_some_and(|extension| extension == "pb");
        if is_named_proto || proto::is_proto(&bytes) {
            match proto::text_of_proto(&bytes) {
                Ok(text) => return Ok(SourceText { path: path.to_path_buf(), text: text.into() }),
                Err(error) if is_named_proto && std::str::from_utf8(&bytes).is_err() => {
                    return Err(ToolError::data(path, error.to_string()));
                }
                // A text, damaged or named like a message, is more likely than a damaged message.
                Err(_) => {}
            }
        }
        if let Some((_, what)) = OTHER_FILES.iter().find(|(beginning, _)| bytes.starts_with(beginning)) {
            return Err(ToolError::data(path, format!("no program: it looks like {what}")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let position = error.utf8_error().valid_up_to();
            ToolError::data(path, format!("not a text: byte {position} is not valid UTF-8"))
        })?;
        // What editors of Windows put before a text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        Ok(SourceText { path: path.to_path_buf(), text: text.into() })
    }

    /// The path from the root of the file system, for those who look for the file later.
    pub fn full_path(&self) -> PathBuf {
        self.path.canonicalize().unwrap_or_else(|_| self.path.clone())
    }

    /// Whether this is MLIR text: by its file name, or by how it begins.
    pub fn is_mlir(&self) -> bool {
        const BEGINNINGS: [&str; 10] = [
            "builtin.module",
            "func.func",
            "llvm.func",
            "gpu.module",
            "memref.global",
            "module ",
            "#",
            "!",
            "\"",
            "{-#",
        ];
        let is_text = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let first = self.text.lines().map(str::trim_start).find(is_text).unwrap_or("");
        self.path.extension().is_some_and(|extension| extension == "mlir")
            || first == "module"
            || BEGINNINGS.iter().any(|beginning| first.starts_with(beginning))
    }

    /// The parts between lines `// -----`, each with the lines before it empty, so that positions stay.
    pub fn split(&self) -> Vec<SourceText> {
        let mut parts = Vec::new();
        let mut before = 0;
        for part in self.text.split("// -----\n") {
            let text = format!("{}{part}", "\n".repeat(before));
            before += part.matches('\n').count() + 1;
            parts.push(SourceText { path: self.path.clone(), text: text.into() });
        }
        parts
    }

    /// The program, read and verified.
    pub fn module(&self) -> Result<Module, ToolError> {
        if self.is_mlir() {
            let context = dialect::context();
            let module = dialect::parse(&context, &self.text).and_then(|module| dialect::mlir_to_graph(&module));
            return module.map_err(|error| self.mlir_error(error));
        }
        let start = self.text.len() - self.text.trim_start().len();
        if self.text[start..].starts_with('{') {
            let line = self.text[..start].matches('\n').count() as u32 + 1;
            let column = self.text[..start].rsplit('\n').next().unwrap_or_default().chars().count() as u32 + 1;
            let position = TextPosition { line, column };
            return Err(ToolError::Instruction { source_text: self.clone(), position, message: NOT_HLO.to_string() });
        }
        hlo::text::read(&self.text).map_err(|errors| ToolError::Program { source_text: self.clone(), errors })
    }

    /// What is wrong with this MLIR text, at its place where MLIR names one.
    pub(crate) fn mlir_error(&self, error: DialectError) -> ToolError {
        let (location, message) = match &error {
            DialectError::Diagnostics(diagnostics) => match diagnostics.first() {
                Some(first) => (first.location.as_str(), first.message.clone()),
                None => ("", error.to_string()),
            },
            DialectError::Invalid { location, message } => (location.as_deref().unwrap_or(""), message.clone()),
        };
        let is_before_hlo = BEFORE_HLO.iter().any(|dialect| message.contains(dialect));
        let hint =
            if is_before_hlo { "; JAX gives HLO with jax.jit(f).lower(…).as_text(dialect=\"hlo\")" } else { "" };
        let message = format!("{}{hint}", message.trim_end());
        match text_position(location) {
            Some(position) => ToolError::Instruction { source_text: self.clone(), position, message },
            None => ToolError::data(&self.path, error.to_string()),
        }
    }
}

/// The line and column that `file:line:column` ends with.
fn text_position(location: &str) -> Option<TextPosition> {
    let mut parts = location.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    Some(TextPosition { line, column })
}
