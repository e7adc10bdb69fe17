//! `#hlo.slices`: places in memory as an attribute.

use melior::Context;
use melior::ir::Attribute;

use super::error::DialectError;
use super::ffi;
use crate::buffers::{Buffer, Slice};

/// Attribute of the places of a value's leaves; `None` for a leaf without a place.
pub fn slices_attribute<'c>(context: &'c Context, slices: &[Option<Slice>]) -> Attribute<'c> {
    let fields: Vec<[i64; 4]> = slices.iter().map(|slice| slice.map_or([0; 4], fields_of)).collect();
    ffi::slices(context, &fields)
}

fn fields_of(Slice { buffer, offset, size }: Slice) -> [i64; 4] {
    let (kind, number) = match buffer {
        Buffer::Arena => (1, 0),
        Buffer::Parameter(number) => (2, number),
        Buffer::Constant(number) => (3, number),
        Buffer::Output(number) => (4, number),
    };
    [kind, i64::from(number), offset as i64, size as i64]
}

/// The places that an attribute says.
///
/// # Errors
/// [`DialectError::Invalid`] for other attributes, and for numbers that no buffer has.
pub fn slices_of(attribute: Attribute<'_>) -> Result<Vec<Option<Slice>>, DialectError> {
    let malformed = || DialectError::invalid("an attribute does not say places in memory as `#hlo.slices` does");
    let (entries, rest) = ffi::slices_fields(attribute).ok_or_else(malformed)?.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(malformed());
    }
    let slice = |&[kind, number, offset, size]: &[i64; 4]| {
        let buffer = match (kind, u32::try_from(number).ok()?) {
            (0, _) => return Some(None),
            (1, _) => Buffer::Arena,
            (2, number) => Buffer::Parameter(number),
            (3, number) => Buffer::Constant(number),
            (4, number) => Buffer::Output(number),
            _ => return None,
        };
        Some(Some(Slice { buffer, offset: usize::try_from(offset).ok()?, size: usize::try_from(size).ok()? }))
    };
    entries.iter().map(slice).collect::<Option<_>>().ok_or_else(malformed)
}
