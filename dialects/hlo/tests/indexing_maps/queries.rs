//! Queries of the code generator, and transformations of variables.

use std::collections::{BTreeSet, HashSet};

use hlo::attributes::WindowDimension;
use hlo::indexing_maps::maps::{self, Offset};
use hlo::ops::gather::GatherAttributes;
use indexing::queries::{
    Access, SymbolicTile, interior_box, linearize, propagate_tile, row_major_strides, stride_along, strides_of_layout,
    symbolic_tiles, truth, utilisation,
};
use indexing::{Constraint, Expr, IndexingMap, Interval, Var};

use super::{context, map};

fn access(map: &IndexingMap<'static>, sizes: &[i64], dimension: u32, width: i64) -> Access {
    let offset = linearize(map, &row_major_strides(sizes));
    stride_along(map, offset, Var::Dim(dimension), width)
}

#[test]
fn linearize_joins_what_reshape_takes_apart() {
    let reshape = maps::reshape(context(), &[4, 8, 12], &[32, 3, 4]);
    assert_eq!(linearize(&reshape, &row_major_strides(&[4, 8, 12])).to_string(), "d0 * 12 + d1 * 4 + d2");
    let generic = maps::reshape(context(), &[6, 35], &[10, 21]);
    assert_eq!(linearize(&generic, &row_major_strides(&[6, 35])).to_string(), "d0 * 21 + d1");
    let seven = maps::reshape(context(), &[2, 3, 5, 7, 11, 13], &[13, 11, 7, 5, 3, 2]);
    let offset = linearize(&seven, &row_major_strides(&[2, 3, 5, 7, 11, 13]));
    assert_eq!(offset.to_string(), "d0 * 2310 + d1 * 210 + d2 * 30 + d3 * 6 + d4 * 2 + d5");
}

#[test]
fn strides() {
    assert_eq!(row_major_strides(&[4, 8, 12]), [96, 12, 1]);
    assert_eq!(strides_of_layout(&[4, 8, 12], &[0, 2, 1]), [1, 48, 4]);
    assert_eq!(row_major_strides(&[]), Vec::<i64>::new());
}

#[test]
fn stride_along_a_vectorised_dimension() {
    assert_eq!(access(&maps::identity(context(), &[4, 64]), &[4, 64], 1, 8), Access::Contiguous);
    assert_eq!(access(&maps::transpose(context(), &[64, 4], &[1, 0]), &[64, 4], 1, 8), Access::Strided(4));
    assert_eq!(access(&maps::broadcast(context(), &[4, 64], &[0]), &[4], 1, 8), Access::Broadcast);
    assert_eq!(access(&maps::reverse(context(), &[4, 64], &[1]), &[4, 64], 1, 8), Access::Strided(-1));
    assert_eq!(access(&maps::slice(context(), &[4, 16], &[0, 3], &[1, 4]), &[4, 67], 1, 8), Access::Strided(4));
    // Lanes stay inside a row of the operand when the width divides it, and do not when it does not.
    let reshape = maps::reshape(context(), &[8, 16], &[128]);
    let row = linearize(&reshape, &[100, 1]);
    assert_eq!(stride_along(&reshape, row, Var::Dim(0), 8), Access::Contiguous);
    assert_eq!(stride_along(&reshape, row, Var::Dim(0), 16), Access::Contiguous);
    assert_eq!(stride_along(&reshape, row, Var::Dim(0), 32), Access::Irregular);
    let repeat = map("(d0) -> (d0 floordiv 4), domain: d0 in [0, 63]");
    assert_eq!(access(&repeat, &[16], 0, 4), Access::Broadcast);
    assert_eq!(access(&repeat, &[16], 0, 8), Access::Irregular);
    // Padding and run-time offsets do not disturb.
    assert_eq!(access(&maps::pad(context(), &[70], &[64], &[3], &[0]), &[64], 0, 8), Access::Contiguous);
    assert_eq!(
        access(&maps::dynamic_slice(context(), &[99], &[32], &[Offset::Value(7)]), &[99], 0, 8),
        Access::Contiguous
    );
    // Fewer elements than lanes.
    assert_eq!(access(&maps::identity(context(), &[4, 3]), &[4, 3], 1, 8), Access::Contiguous);
    assert_eq!(access(&maps::identity(context(), &[4, 1]), &[4, 1], 1, 8), Access::Broadcast);
}

#[test]
fn stride_along_agrees_with_evaluation() {
    for (input, output) in [([6, 35], [10, 21]), ([16, 12], [24, 8]), ([3, 64], [12, 16])] {
        let reshape = maps::reshape(context(), &input, &output);
        // Padded rows, so that leaving a row shows.
        let offset = linearize(&reshape, &[1000, 1]);
        for width in [2, 3, 4, 8] {
            let found = stride_along(&reshape, offset, Var::Dim(1), width);
            let mut steps = BTreeSet::new();
            for d0 in 0..output[0] {
                for start in (0..output[1] / width).map(|q| q * width) {
                    let at = |d1: i64| offset.evaluate(&[d0, d1], &[]).expect("in bounds");
                    steps.extend((1..width).map(|lane| at(start + lane) - at(start + lane - 1)));
                }
            }
            match found {
                Access::Contiguous => assert_eq!(steps, BTreeSet::from([1])),
                Access::Broadcast => assert_eq!(steps, BTreeSet::from([0])),
                Access::Strided(c) => assert_eq!(steps, BTreeSet::from([c])),
                Access::Irregular => assert!(steps.len() > 1, "{input:?} {output:?} {width}: {steps:?}"),
            }
        }
    }
}

#[test]
fn truth_of_constraints_over_a_box() {
    let pad = map("(d0) -> (d0 - 4), domain: d0 in [0, 15], d0 + 0 in [4, 11]");
    let constraint = Constraint::new(pad.parse_expr("d0 * 2 + 1").expect("parses"), Interval::new(9, 23));
    let over = |low, high| truth(&pad, &constraint, &[(Var::Dim(0), Interval::new(low, high))]);
    assert_eq!(over(4, 11), Some(true));
    assert_eq!(over(12, 15), None); // the map's own bounds end at 11
    assert_eq!(over(4, 5), Some(true));
    let free = map("(d0) -> (d0), domain: d0 in [0, 15]");
    assert_eq!(truth(&free, &constraint, &[(Var::Dim(0), Interval::new(12, 15))]), Some(false));
    assert_eq!(truth(&free, &constraint, &[]), None);
}

#[test]
fn interior_of_a_padded_window() {
    let window = [WindowDimension { size: 3, padding_low: 1, padding_high: 1, ..WindowDimension::new(1) }];
    let same = maps::reduce_window(context(), &[64], &[64], &window);
    assert_eq!(same.constraints().len(), 1);
    let inner = interior_box(&same).expect("there is an interior");
    assert!(inner.constraints().is_empty());
    assert_eq!(inner.bounds(Var::Dim(0)), Interval::new(1, 62));
    assert!(inner.points().all(|p| same.contains(&p.dims, &p.ranges, &p.runtimes)));
    let dilated = map("(d0) -> (d0), domain: d0 in [0, 9], (d0 * 3) mod 2 in [0, 0]");
    assert!(interior_box(&dilated).is_none());
}

#[test]
fn utilisation_of_operands() {
    let fraction = |maps: &[IndexingMap<'static>], sizes: &[i64]| {
        let used = utilisation(maps, sizes);
        assert!(used.exact);
        used.fraction()
    };
    assert_eq!(fraction(&[maps::identity(context(), &[1000, 1000])], &[1000, 1000]), 1.0);
    assert_eq!(fraction(&[maps::slice(context(), &[500, 250], &[0, 0], &[2, 4])], &[1000, 1000]), 0.125);
    assert_eq!(fraction(&[maps::broadcast(context(), &[10, 20, 30], &[1])], &[20]), 1.0);
    let window = [WindowDimension { size: 3, stride: 4, ..WindowDimension::new(1) }];
    assert_eq!(fraction(&[maps::reduce_window(context(), &[4003], &[1001], &window)], &[4003]), 3003.0 / 4003.0);
    // Two overlapping parts, counted once.
    let parts = [maps::slice(context(), &[6], &[0], &[1]), maps::slice(context(), &[6], &[4], &[1])];
    assert_eq!(fraction(&parts, &[20]), 0.5);
    assert_eq!(fraction(&[], &[20]), 0.0);
    // A slice at an offset that is known when the program runs; which rows a gather reads is not.
    let offsets = [Offset::Value(0), Offset::Value(1)];
    assert_eq!(fraction(&[maps::dynamic_slice(context(), &[100, 20], &[10, 20], &offsets)], &[100, 20]), 0.1);
    let rows = GatherAttributes::new(&[1], &[0], &[0], 1, &[1, 64]);
    let (table, _) = maps::gather(context(), &[50000, 64], &[8, 1], &[8, 64], &rows, 0);
    let used = utilisation(&[table], &[50000, 64]);
    assert_eq!((used.elements, used.exact), (8 * 64, false));
}

#[test]
fn tiles_of_operands() {
    // A tile of a slice of a transposed array.
    let map = maps::transpose(context(), &[128, 256], &[1, 0]);
    let tile = propagate_tile(&map, &[8, 32], &[1, 1]).expect("a tile");
    assert_eq!(format!("{:?}", tile.offsets), "[d1, d0]");
    assert_eq!((tile.sizes, tile.strides), (vec![32, 8], vec![1, 1]));
    let tile = propagate_tile(&maps::slice(context(), &[64], &[3], &[4]), &[8], &[2]).expect("a tile");
    assert_eq!(format!("{:?}", tile.offsets), "[d0 * 4 + 3]");
    assert_eq!((tile.sizes, tile.strides), (vec![8], vec![8]));
    // Reductions and windows need all values of their range variables.
    let tile = propagate_tile(&maps::reduce(context(), &[64, 32], &[1]), &[4], &[1]).expect("a tile");
    assert_eq!((format!("{:?}", tile.offsets), tile.sizes), ("[d0, 0]".to_string(), vec![4, 32]));
    let window = [WindowDimension { size: 3, stride: 2, ..WindowDimension::new(1) }];
    let tile = propagate_tile(&maps::reduce_window(context(), &[129], &[64], &window), &[8], &[1]).expect("a tile");
    assert_eq!((format!("{:?}", tile.offsets), tile.sizes), ("[d0 * 2]".to_string(), vec![17]));
    // Reversal turns the tile round.
    let tile = propagate_tile(&maps::reverse(context(), &[64], &[0]), &[8], &[1]).expect("a tile");
    assert_eq!((format!("{:?}", tile.offsets), tile.sizes), ("[-d0 + 56]".to_string(), vec![8]));
    // 5 of 12 elements of a row do not stay in one row.
    assert!(propagate_tile(&maps::reshape(context(), &[8, 12], &[96]), &[5], &[1]).is_none());
}

#[test]
fn tiles_hold_exactly_the_elements_needed() {
    let window = [WindowDimension { size: 3, stride: 2, window_dilation: 2, ..WindowDimension::new(1) }];
    let map = maps::reduce_window(context(), &[67], &[32], &window);
    let tile = propagate_tile(&map, &[6], &[1]).expect("a tile");
    for start in 0..=26 {
        let needed: HashSet<i64> = map
            .points()
            .filter(|p| (start..start + 6).contains(&p.dims[0]))
            .map(|p| map.evaluate(&p.dims, &p.ranges, &[]).expect("in bounds")[0])
            .collect();
        let first = tile.offsets[0].evaluate(&[start], &[]).expect("in bounds");
        let held: HashSet<i64> = (0..tile.sizes[0]).map(|k| first + k * tile.strides[0]).collect();
        assert_eq!(needed, held);
    }
}

/// The dimensions of a tile's indices.
fn indices_of(offset: i64, size: i64, stride: i64) -> Vec<i64> {
    (0..size).map(|k| offset + stride * k).collect()
}

/// Every index with one of the given values along each dimension.
fn product(along: &[Vec<i64>]) -> BTreeSet<Vec<i64>> {
    along.iter().fold(BTreeSet::from([Vec::new()]), |all, values| {
        all.iter().flat_map(|index| values.iter().map(move |&i| [index.clone(), vec![i]].concat())).collect()
    })
}

/// Checks the tiles of a map against enumeration for every tile of its result. Returns which fraction of them has one.
fn check_symbolic_tiles(map: &IndexingMap<'static>) -> f64 {
    let tiles = symbolic_tiles(map);
    let rank = map.dims().len();
    let (mut all, mut found) = (0u32, 0u32);
    let sizes: Vec<i64> = map.dims().iter().map(|v| v.bounds.upper + 1).collect();
    let choices: Vec<Vec<(i64, i64, i64)>> = sizes
        .iter()
        .map(|&size| {
            (0..size)
                .flat_map(|o| (1..=size).flat_map(move |n| (1..=size).map(move |t| (o, n, t))))
                .filter(|&(o, n, t)| o + (n - 1) * t < size)
                .collect()
        })
        .collect();
    let count: usize = choices.iter().map(Vec::len).product();
    for number in (0..count).step_by(1 + count / 4000) {
        let mut rest = number;
        let tile: Vec<(i64, i64, i64)> = choices
            .iter()
            .map(|list| {
                let choice = list[rest % list.len()];
                rest /= list.len();
                choice
            })
            .collect();
        all += 1;
        let offsets: Vec<i64> = tile.iter().map(|t| t.0).collect();
        let extents: Vec<i64> = tile.iter().map(|t| t.1).chain(tile.iter().map(|t| t.2)).collect();
        let runtimes: Vec<i64> = map.runtimes().iter().map(|v| v.bounds.upper).collect();
        let right: Vec<&SymbolicTile<'_>> =
            tiles.iter().filter(|tile| tile.map().contains(&offsets, &extents, &runtimes)).collect();
        found += u32::from(!right.is_empty());
        if right.is_empty() {
            continue;
        }
        let elements = product(&tile.iter().map(|&(o, n, t)| indices_of(o, n, t)).collect::<Vec<_>>());
        let range_values: Vec<Vec<i64>> =
            map.ranges().iter().map(|v| (v.bounds.lower..=v.bounds.upper).collect()).collect();
        let needed: BTreeSet<Vec<i64>> = elements
            .iter()
            .flat_map(|dims| product(&range_values).into_iter().map(move |ranges| (dims, ranges)))
            .map(|(dims, ranges)| map.evaluate(dims, &ranges, &runtimes).expect("in bounds"))
            .collect();
        for symbolic in right {
            let symbols = [extents.as_slice(), &runtimes].concat();
            let at = |exprs: &[Expr<'_>]| -> Vec<i64> {
                exprs.iter().map(|e| e.evaluate(&offsets, &symbols).expect("in its domain")).collect()
            };
            let (o, n, t) = (at(symbolic.offsets()), at(symbolic.sizes()), at(symbolic.strides()));
            let along: Vec<Vec<i64>> = (0..o.len()).map(|i| indices_of(o[i], n[i], t[i])).collect();
            assert_eq!(product(&along), needed, "{map}\n{}\nat {tile:?}", symbolic.map());
        }
    }
    assert!(all > 0 && rank > 0);
    f64::from(found) / f64::from(all)
}

#[test]
fn tiles_with_symbols() {
    let window = [WindowDimension { size: 3, stride: 2, ..WindowDimension::new(1) }];
    // All tiles of the result are tiles of the operand.
    for map in [
        maps::identity(context(), &[5, 4]),
        maps::transpose(context(), &[5, 4], &[1, 0]),
        maps::broadcast(context(), &[5, 4], &[1]),
        maps::slice(context(), &[5], &[3], &[4]),
        maps::reverse(context(), &[7], &[0]),
        maps::reduce(context(), &[4, 3, 5], &[1]),
        maps::dynamic_slice(context(), &[9, 9], &[4, 3], &[Offset::Value(0), Offset::Value(1)]),
    ] {
        assert_eq!(check_symbolic_tiles(&map), 1.0, "{map}");
    }
    // Windows have to overlap or touch, rows to stay whole.
    for map in [
        maps::reduce_window(context(), &[17], &[8], &window),
        maps::reshape(context(), &[4, 6], &[24]),
        maps::reshape(context(), &[24], &[4, 6]),
        maps::reshape(context(), &[2, 3, 4], &[24]),
        maps::reshape(context(), &[2, 6], &[4, 3]),
        map("(d0, d1) -> (d0, d0), domain: d0 in [0, 4], d1 in [0, 2]"),
        map("(d0) -> (d0 mod 4), domain: d0 in [0, 15]"),
    ] {
        let fraction = check_symbolic_tiles(&map);
        assert!(fraction > 0.0 && fraction < 1.0, "{map}: {fraction}");
    }
    assert!(symbolic_tiles(&map("(d0) -> ((d0 * d0) mod 5), domain: d0 in [0, 9]")).is_empty());
    // The text form of the first: o, n, t are the result's offsets, sizes and strides.
    let tiles = symbolic_tiles(&maps::transpose(context(), &[128, 256], &[1, 0]));
    let [tile] = tiles.as_slice() else { panic!("one tile") };
    assert_eq!(tile.map().signature().to_string(), "(o0, o1)[n0, n1, t0, t1] -> (o1, o0, n1, n0, t1, t0)");
    let tiles = symbolic_tiles(&maps::slice(context(), &[64], &[3], &[4]));
    assert_eq!(tiles[0].map().signature().to_string(), "(o0)[n0, t0] -> (o0 * 4 + 3, n0, t0 * 4)");
}

#[test]
fn indices_that_move_together_are_no_tile() {
    let diagonal = map("(d0) -> (d0, d0), domain: d0 in [0, 9]");
    assert!(propagate_tile(&diagonal, &[4], &[1]).is_none());
    assert!(propagate_tile(&diagonal, &[1], &[1]).is_some());
}

#[test]
fn inverse_maps() {
    let there_and_back = |map: &IndexingMap<'static>| {
        let inverse = map.inverse().expect("invertible");
        let mut points = 0;
        for p in map.points() {
            let image = map.evaluate(&p.dims, &[], &[]).expect("in bounds");
            assert!(inverse.contains(&image, &[], &[]), "{map}\n{inverse}\n{image:?}");
            assert_eq!(inverse.evaluate(&image, &[], &[]), Some(p.dims), "{map}\n{inverse}");
            points += 1;
        }
        assert_eq!(inverse.points().count(), points, "{map}\n{inverse}");
        inverse.to_string()
    };
    there_and_back(&maps::identity(context(), &[3, 4]));
    there_and_back(&maps::transpose(context(), &[3, 4, 5], &[2, 0, 1]));
    there_and_back(&maps::reverse(context(), &[3, 4], &[1]));
    there_and_back(&maps::slice(context(), &[5, 3], &[5, 3], &[1, 7]));
    let sliced = maps::slice(context(), &[5, 3], &[5, 3], &[1, 7]).inverse().expect("invertible");
    let expected = maps::slice_to_output(context(), &[10, 18], &[5, 3], &[5, 3], &[1, 7]);
    assert_eq!(sliced.same_function(&expected), Some(true));
    assert_eq!(
        there_and_back(&maps::reshape(context(), &[4, 8], &[32])),
        maps::reshape(context(), &[32], &[4, 8]).to_string()
    );
    assert_eq!(
        there_and_back(&maps::reshape(context(), &[32], &[4, 8])),
        maps::reshape(context(), &[4, 8], &[32]).to_string()
    );
    assert_eq!(
        there_and_back(&maps::reshape(context(), &[4, 8], &[2, 4, 4])),
        maps::reshape(context(), &[2, 4, 4], &[4, 8]).to_string()
    );
    there_and_back(&maps::bitcast(context(), &[16, 17, 3], &[2, 1, 0], &[51, 16], &[0, 1]));
    assert!(maps::broadcast(context(), &[3, 4], &[0]).inverse().is_none());
    assert!(map("(d0) -> (d0 mod 3), domain: d0 in [0, 9]").inverse().is_none());
}

#[test]
fn comparison_as_functions() {
    let a = map("(d0) -> ((d0 floordiv 4) * 4 + d0 mod 4), domain: d0 in [0, 99]");
    let b = map("(d0) -> (d0), domain: d0 in [0, 99]");
    assert_eq!(a.same_function(&b), Some(true));
    let c = map("(d0) -> (d0), domain: d0 in [0, 98]");
    assert_eq!(b.same_function(&c), Some(false));
    let d = map("(d0, d1) -> ((d0 * d1) mod 7), domain: d0 in [0, 9], d1 in [0, 9]");
    let e = map("(d0, d1) -> ((d1 * d0) mod 7), domain: d0 in [0, 9], d1 in [0, 9]");
    assert_eq!(d.same_function(&e), Some(true));
}
