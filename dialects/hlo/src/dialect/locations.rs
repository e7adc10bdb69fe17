//! Names, metadata and text positions as locations.
//!
//! An instruction's location is `"name"(fused<"metadata">["text position", "source position"])`, with the parts that
//! exist. The source position is found in the metadata (or, through it, in the module's source tables) for MLIR's
//! own messages; reading back uses the metadata's text alone.

use melior::Context;
use melior::ir::attribute::StringAttribute;
use melior::ir::{Attribute, Location};
use mlir_ext::locations::PROGRAM_TEXT;
use mlir_ext::{attributes, locations, operations};

use crate::graph::{Instruction, SourceTables, TextPosition};
use crate::metadata::{METADATA, source_position};

/// Location of an instruction: its name, where it is in its text, and what its metadata says.
pub fn instruction_location<'c>(
    context: &'c Context,
    sources: &SourceTables,
    instruction: &Instruction,
) -> Location<'c> {
    location_of(context, sources, &instruction.name, instruction.annotation(METADATA), instruction.position)
}

/// Location of an instruction or parameter.
pub(super) fn location_of<'c>(
    context: &'c Context,
    sources: &SourceTables,
    name: &str,
    metadata: Option<&str>,
    position: Option<TextPosition>,
) -> Location<'c> {
    let unknown = Location::unknown(context);
    let position =
        position.map(|position| Location::new(context, PROGRAM_TEXT, position.line as usize, position.column as usize));
    let inner = match metadata {
        None => position.unwrap_or(unknown),
        Some(metadata) => {
            let mut parts: Vec<Location> = position.into_iter().collect();
            parts.extend(
                source_position(sources, metadata)
                    .map(|source| Location::new(context, &source.file, source.line.unwrap_or_default() as usize, 0)),
            );
            let metadata: Attribute = StringAttribute::new(context, metadata).into();
            Location::fused(context, &parts, metadata)
        }
    };
    if name.is_empty() { inner } else { Location::name(context, name, inner) }
}

/// A location under another name.
pub fn renamed<'c>(location: Location<'c>, name: &str) -> Location<'c> {
    let inner = locations::name(location).map_or(location, |(_, inner)| inner);
    if name.is_empty() { inner } else { Location::name(operations::context(location.context()), name, inner) }
}

/// Name of the instruction at a location.
pub fn name_of(location: Location<'_>) -> Option<&str> {
    locations::name(location).map(|(name, _)| name)
}

/// What a location says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin<'c> {
    /// Name of the instruction; `None` where the location has none.
    pub name: Option<&'c str>,
    /// Raw text of the metadata.
    pub metadata: Option<&'c str>,
    /// Position in HLO text.
    pub position: Option<TextPosition>,
}

/// Reads a location.
pub(super) fn origin_of(location: Location<'_>) -> Origin<'_> {
    let (name, inner) = match locations::name(location) {
        Some((name, inner)) => (Some(name), inner),
        None => (None, location),
    };
    let (parts, metadata) = locations::fused(inner).unwrap_or_else(|| (vec![inner], None));
    let position = parts.first().and_then(|part| locations::file_position(*part));
    Origin {
        name,
        metadata: metadata.and_then(attributes::string),
        position: position
            .filter(|(file, ..)| *file == PROGRAM_TEXT)
            .map(|(_, line, column)| TextPosition { line, column }),
    }
}
