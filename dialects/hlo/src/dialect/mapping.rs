//! `#hlo.mapping`: how the work of a kernel is divided, as an attribute.

use indexing::Var;
use indexing::dialect::{map_attribute, map_of};
use melior::Context;
use melior::ir::Attribute;
use melior::ir::Identifier;
use melior::ir::attribute::{
    ArrayAttribute, BoolAttribute, DenseI64ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute,
};
use melior::ir::r#type::IntegerType;
use mlir_ext::attributes;

use super::error::DialectError;
use super::ffi;
use crate::graph::InstructionId;
use crate::mapping::{RowWork, WorkDimension, WorkKind, WorkMapping};

/// The attribute of a mapping.
pub fn mapping_attribute<'c>(context: &'c Context, mapping: &WorkMapping<'c>) -> Attribute<'c> {
    let dimensions = &mapping.dimensions;
    let integers = |values: &[i64]| -> Attribute<'c> { DenseI64ArrayAttribute::new(context, values).into() };
    let array = |values: Vec<Attribute<'c>>| -> Attribute<'c> { ArrayAttribute::new(context, &values).into() };
    let kinds = dimensions.iter().map(|dimension| StringAttribute::new(context, dimension.kind.text()).into());
    let tiles: Vec<i64> = dimensions.iter().map(|dimension| dimension.tile).collect();
    let lanes: Vec<i64> = dimensions.iter().map(|dimension| i64::from(dimension.lanes)).collect();
    let inner_lanes = IntegerAttribute::new(IntegerType::new(context, 64).into(), i64::from(mapping.inner_lanes));
    let mut entries = vec![
        ("map", map_attribute(context, &mapping.map)),
        ("kinds", array(kinds.collect())),
        ("tiles", integers(&tiles)),
        ("lanes", integers(&lanes)),
        ("inner_lanes", inner_lanes.into()),
        ("overlap", BoolAttribute::new(context, mapping.overlap).into()),
    ];
    if dimensions.iter().any(|dimension| !dimension.cuts.is_empty()) {
        entries.push(("cuts", array(dimensions.iter().map(|dimension| integers(&dimension.cuts)).collect())));
    }
    if let Some(RowWork { dimensions, rank, block, steps }) = &mapping.rows {
        let steps: Vec<i64> = steps.iter().map(|step| i64::from(step.0)).collect();
        entries.push(("rows", integers(&[*dimensions as i64, *rank as i64, *block])));
        entries.push(("row_steps", integers(&steps)));
    }
    let entries: Vec<_> = entries.into_iter().map(|(name, value)| (Identifier::new(context, name), value)).collect();
    ffi::mapping(DictionaryAttribute::new(context, &entries))
}

/// The mapping that an attribute says.
///
/// # Errors
/// [`DialectError::Invalid`] for other attributes, and for mappings that contradict themselves.
pub fn mapping_of<'c>(context: &'c Context, attribute: Attribute<'c>) -> Result<WorkMapping<'c>, DialectError> {
    let invalid = |what: &str| DialectError::invalid(format!("`#hlo.mapping` {what}"));
    let entries = ffi::mapping_entries(attribute).and_then(attributes::entries);
    let entries =
        entries.ok_or_else(|| DialectError::invalid("an attribute does not divide work as `#hlo.mapping` does"))?;
    let find = |name: &str| entries.iter().find(|(key, _)| *key == name).map(|&(_, value)| value);
    let wrong = |name: &'static str| move || invalid(&format!("lacks `{name}`, or has one of another form"));
    let small = |number: i64| u32::try_from(number).ok().filter(|number| (1..=MOST_LANES).contains(number));

    let map = find("map").and_then(|map| map_of(context, map)).ok_or_else(wrong("map"))?;
    let kinds = find("kinds").and_then(attributes::elements).ok_or_else(wrong("kinds"))?;
    let kinds: Option<Vec<WorkKind>> = kinds.into_iter().map(|kind| attributes::string(kind)?.parse().ok()).collect();
    let kinds = kinds.ok_or_else(wrong("kinds"))?;
    let tiles = find("tiles").and_then(attributes::integers).ok_or_else(wrong("tiles"))?;
    let lanes = find("lanes").and_then(attributes::integers).ok_or_else(wrong("lanes"))?;
    let lanes: Vec<u32> = lanes.into_iter().map(small).collect::<Option<_>>().ok_or_else(wrong("lanes"))?;
    let inner_lanes =
        find("inner_lanes").and_then(attributes::integer).and_then(small).ok_or_else(wrong("inner_lanes"))?;
    let overlap = find("overlap").and_then(attributes::boolean).ok_or_else(wrong("overlap"))?;
    let cuts = match find("cuts") {
        Some(cuts) => attributes::elements(cuts)
            .and_then(|cuts| cuts.into_iter().map(attributes::integers).collect::<Option<Vec<_>>>())
            .ok_or_else(wrong("cuts"))?,
        None => vec![Vec::new(); kinds.len()],
    };
    if [tiles.len(), lanes.len(), cuts.len(), map.dims().len()] != [kinds.len(); 4] {
        return Err(invalid("has not as many kinds, tiles and lanes as its map has dimensions"));
    }
    let dimensions = kinds.into_iter().zip(tiles).zip(lanes).zip(cuts);
    let dimensions: Vec<WorkDimension> =
        dimensions.map(|(((kind, tile), lanes), cuts)| WorkDimension { kind, tile, lanes, cuts }).collect();
    let rows = match find("rows") {
        Some(rows) => {
            let rows = attributes::integers(rows).ok_or_else(wrong("rows"))?;
            let steps = find("row_steps").and_then(attributes::integers).ok_or_else(wrong("row_steps"))?;
            Some(row_work(&rows, &steps).ok_or_else(wrong("rows"))?)
        }
        None => None,
    };
    let mapping = WorkMapping { map, dimensions, inner_lanes, overlap, rows };
    check(&mapping).map_err(invalid)?;
    Ok(mapping)
}

fn row_work(rows: &[i64], steps: &[i64]) -> Option<RowWork> {
    let &[dimensions, rank, block] = rows else { return None };
    let steps = steps.iter().map(|&step| u32::try_from(step).ok().map(InstructionId));
    Some(RowWork {
        dimensions: usize::try_from(dimensions).ok()?,
        rank: usize::try_from(rank).ok()?,
        block,
        steps: steps.collect::<Option<_>>()?,
    })
}

/// Lanes that no vector has more of.
const MOST_LANES: u32 = 1 << 10;

/// Rows that no block has more of.
const MOST_ROWS: i64 = 1 << 10;

/// Elements that no thread of a team scans more of at once.
const MOST_SCANNED: i64 = 1 << 4;

/// Threads that teams which scan together are multiples of.
const WARP: i64 = 32;

/// Whether what goes through a dimension scans by elements, not by vectors: each of several lanes or threads has a row, or a part.
fn scans_alone(outer: &WorkDimension) -> bool {
    outer.lanes > 1 || !matches!(outer.kind, WorkKind::Sequential | WorkKind::Parallel)
}

/// What a mapping must be for loops to be made of it.
fn check(mapping: &WorkMapping<'_>) -> Result<(), &'static str> {
    let mut lanes = mapping.dimensions.iter().map(|dimension| dimension.lanes).filter(|&lanes| lanes > 1);
    match (lanes.next(), lanes.next(), lanes.next()) {
        (_, None, _) => {}
        // Squares, or two of them one below the other.
        (Some(rows), Some(columns), None) if rows == columns || rows == 2 * columns => {}
        (Some(_), Some(_), None) if mapping.dimensions.last().is_some_and(|own| own.kind == WorkKind::Crossed) => {}
        _ => return Err("has vectors along several dimensions that are no squares"),
    }
    for (number, dimension) in mapping.dimensions.iter().enumerate() {
        let bounds = mapping.bounds(number);
        let ends = dimension.cuts.iter().copied().chain([bounds.upper + 1]);
        if bounds.is_empty() || !std::iter::once(bounds.lower).chain(ends).is_sorted_by(|a, b| a < b) {
            return Err("is cut outside of its bounds");
        }
        if dimension.tile < 1 {
            return Err("has a tile without positions");
        }
        let kind_of = |number: usize| mapping.dimensions.get(number).map(|dimension| dimension.kind);
        let outer = number.checked_sub(1).and_then(kind_of);
        let around = number.checked_sub(1).and_then(|number| mapping.dimensions.get(number));
        let rows = around.map_or(1, |own| own.lanes);
        let goes_by_rows = rows > 1 && matches!(outer, Some(WorkKind::Sequential | WorkKind::Parallel));
        let is_of_vectors = (bounds.upper + 1) * i64::from(rows) % i64::from(dimension.lanes) == 0;
        match dimension.kind {
            WorkKind::Tile => {
                let count = mapping.dimensions.len();
                let has_team = kind_of(count - 1) == Some(WorkKind::Team);
                let rest = count - usize::from(has_team);
                let is_whole = (0..rest).all(|other| kind_of(other) == Some(WorkKind::Tile));
                if !is_whole || count != 3 && (!has_team || count != 4) || dimension.lanes > 1 {
                    return Err("has tiles along other than three dimensions");
                }
            }
            // The threads of a block that compute what all of its tiles have along the last dimension.
            WorkKind::Team if number >= 2 && outer == Some(WorkKind::Tile) && dimension.lanes == 1 => {}
            WorkKind::Team => {
                let size = bounds.upper + 1;
                let has_elements = match number {
                    0 => kind_of(1) == Some(WorkKind::Threads),
                    _ => number == 1 && outer == Some(WorkKind::Threads),
                };
                // What a team goes through together are the elements of a row.
                let goes_along = match kind_of(2) {
                    Some(WorkKind::Sequential) => number == 1 && mapping.rows.is_some(),
                    Some(WorkKind::Scan) => number == 1 && mapping.rows.is_none() && size % WARP == 0,
                    _ => false,
                };
                let is_last = mapping.dimensions.len() == 2 || mapping.dimensions.len() == 3 && goes_along;
                if !has_elements || !is_last || size.count_ones() != 1 || dimension.lanes > 1 {
                    return Err("has a team that is no power of two beside threads");
                }
            }
            WorkKind::Threads if number == 1 && outer == Some(WorkKind::Team) => {}
            WorkKind::Threads if number > 0 => return Err("has threads inside of a loop"),
            WorkKind::Parallel if (0..number).any(|outer| kind_of(outer) != Some(WorkKind::Sequential)) => {
                return Err("is parallel inside of what is no loop of one thread");
            }
            WorkKind::Parallel if mapping.iterations(number) < 2 => {
                return Err("is parallel along what cannot be split");
            }
            WorkKind::Scan if number + 1 != mapping.dimensions.len() => {
                return Err("scans outside of another dimension");
            }
            WorkKind::Scan if dimension.lanes > 1 && mapping.dimensions[..number].iter().any(scans_alone) => {
                return Err("has vectors along a scan that lanes or threads make");
            }
            WorkKind::Scan if dimension.tile > MOST_SCANNED => return Err("scans too many elements at once"),
            WorkKind::Threads if dimension.lanes > 1 && mapping.dimensions.len() > 1 => {
                return Err("has vectors of threads beside other dimensions");
            }
            WorkKind::Crossed if number + 1 != mapping.dimensions.len() || !goes_by_rows => {
                return Err("crosses what is not the last dimension, inside of one that goes by several rows");
            }
            WorkKind::Crossed if bounds.lower != 0 || !is_of_vectors => {
                return Err("crosses rows that are no whole number of vectors");
            }
            WorkKind::Scan | WorkKind::Threads | WorkKind::Crossed if !dimension.cuts.is_empty() => {
                return Err("has cuts along a scan, threads or what is crossed");
            }
            WorkKind::Sequential | WorkKind::Parallel | WorkKind::Scan | WorkKind::Threads | WorkKind::Crossed => {}
        }
    }
    if let Some(rows) = &mapping.rows {
        let Some(by_row) = mapping.dimensions.get(..rows.dimensions) else {
            return Err("has rows beyond its dimensions");
        };
        let Some(results) = mapping.map.results().get(..rows.rank) else { return Err("has rows beyond its results") };
        let is_of_rows = |variable| matches!(variable, Var::Dim(number) if (number as usize) < rows.dimensions);
        let mut are_of_rows = true;
        results.iter().for_each(|result| result.visit_variables(&mut |variable| are_of_rows &= is_of_rows(variable)));
        let has_teams = mapping.dimensions.get(1).is_some_and(|second| second.kind == WorkKind::Team);
        let is_loop = |kind| match kind {
            WorkKind::Sequential | WorkKind::Parallel => true,
            kind => kind == WorkKind::Threads && has_teams,
        };
        if !are_of_rows || by_row.iter().any(|dimension| dimension.lanes > 1 || !is_loop(dimension.kind)) {
            return Err("has rows that are not those of its outer loops");
        }
        if mapping.parallel_dimension().is_some_and(|parallel| parallel >= rows.dimensions) {
            return Err("is parallel along its rows");
        }
        if by_row.is_empty() || !(1..=MOST_ROWS).contains(&rows.block) {
            return Err("has blocks of no rows, or of too many");
        }
        if !rows.steps.is_sorted_by(|a, b| a < b) {
            return Err("has steps of a row out of order");
        }
    }
    if mapping.map.runtimes().is_empty() && mapping.map.constraints().is_empty() && !mapping.map.is_known_empty() {
        return Ok(());
    }
    Err("has a map that depends on values or leaves out items")
}
