//! What can be compiled: a module, its text, a file.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use hlo::dialect;
use hlo::graph::Module;
use hlo::text::proto;

use crate::error::Error;

/// A program in any form that [`Client::compile`](crate::Client::compile) takes.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    /// A module.
    Module(&'a Module),
    /// HLO text.
    Text(&'a str),
    /// A file of HLO text, a protocol buffer, or of the `hlo` dialect where its name ends with `.mlir`.
    Path(&'a Path),
}

impl<'a> From<&'a Module> for Source<'a> {
    fn from(module: &'a Module) -> Self {
        Source::Module(module)
    }
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(text: &'a str) -> Self {
        Source::Text(text)
    }
}

impl<'a> From<&'a String> for Source<'a> {
    fn from(text: &'a String) -> Self {
        Source::Text(text)
    }
}

impl<'a> From<&'a Path> for Source<'a> {
    fn from(path: &'a Path) -> Self {
        Source::Path(path)
    }
}

impl<'a> From<&'a PathBuf> for Source<'a> {
    fn from(path: &'a PathBuf) -> Self {
        Source::Path(path)
    }
}

impl<'a> Source<'a> {
    /// The module.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::File`], [`Error::Dialect`].
    pub fn module(&self) -> Result<Cow<'a, Module>, Error> {
        match self {
            Source::Module(module) => Ok(Cow::Borrowed(module)),
            Source::Text(text) => read(text, "text"),
            Source::Path(path) => {
                let bytes = std::fs::read(path).map_err(|error| Error::file(path, error))?;
                let text = if proto::is_proto(&bytes) { proto::text_of_proto(&bytes).ok() } else { None };
                let text = match text {
                    Some(text) => text,
                    None => String::from_utf8(bytes)
                        .map_err(|error| Error::file(path, io::Error::new(io::ErrorKind::InvalidData, error)))?,
                };
                if path.extension().is_some_and(|extension| extension == "mlir") {
                    let context = dialect::context();
                    let module = dialect::parse(&context, &text)?;
                    return Ok(Cow::Owned(dialect::mlir_to_graph(&module)?));
                }
                read(&text, &path.display().to_string())
            }
        }
    }
}

/// Reads a text that errors call `name`.
fn read(text: &str, name: &str) -> Result<Cow<'static, Module>, Error> {
    hlo::text::read(text).map(Cow::Owned).map_err(|errors| Error::text(errors, name, text))
}
