//! Checked reading of locations: each function answers `None` for a location of another kind.

use melior::ir::{Attribute, Location};
use mlir_sys::{mlirLocationFusedGetMetadata, mlirLocationIsAFileLineColRange};

use crate::attributes;

/// The file of positions in the text of a program: a program does not know where its text was read from.
pub const PROGRAM_TEXT: &str = "hlo";

/// Name and child of a name location.
pub fn name<'c>(location: Location<'c>) -> Option<(&'c str, Location<'c>)> {
    location.is_name().then(|| (attributes::identifier_text(location.name_value()), location.name_child_location()))
}

/// Parts and metadata of a fused location.
pub fn fused<'c>(location: Location<'c>) -> Option<(Vec<Location<'c>>, Option<Attribute<'c>>)> {
    if !location.is_fused() {
        return None;
    }
    let parts = (0..location.fused_num_locations()).map(|index| location.fused_location(index)).collect();
    // SAFETY: it is a fused location; its metadata may be null.
    let metadata = unsafe { Attribute::from_option_raw(mlirLocationFusedGetMetadata(location.to_raw())) };
    Some((parts, metadata))
}

/// File, line and column of a location in a file.
pub fn file_position<'c>(location: Location<'c>) -> Option<(&'c str, u32, u32)> {
    // SAFETY: the location is live.
    if !unsafe { mlirLocationIsAFileLineColRange(location.to_raw()) } {
        return None;
    }
    Some((
        attributes::identifier_text(location.file_line_col_range_filename()),
        location.file_line_col_range_start_line() as u32,
        location.file_line_col_range_start_column() as u32,
    ))
}
