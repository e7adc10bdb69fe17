//! Bundles: programs as [`Executable::serialize`](crate::Executable::serialize) gives them, for several platforms, in one file.

#[cfg(feature = "compiler")]
use crate::encoding::Writer;
use crate::encoding::{Malformed, Reader};

/// First bytes of a bundle.
const MAGIC: &[u8; 8] = b"halo-bdl";

/// Version of the form of the bytes.
const FORMAT: u64 = 2;

/// A bundle of programs.
#[cfg(feature = "compiler")]
pub(crate) fn write(programs: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend(MAGIC);
    writer.number(FORMAT);
    writer.list(programs, |writer, program| writer.block(program));
    writer.bytes
}

/// The programs of a bundle; `None` for bytes that are none.
pub(crate) fn programs(bytes: &[u8]) -> Option<Result<Vec<&[u8]>, Malformed>> {
    let content = bytes.strip_prefix(MAGIC)?;
    let read = || {
        let mut reader = Reader::new(content);
        let format = reader.number()?;
        if format != FORMAT {
            return Err(format!("it is a bundle of version {format}, this halo reads {FORMAT}"));
        }
        let programs = reader.list(8, Reader::block)?;
        reader.end()?;
        Ok(programs)
    };
    Some(read())
}
