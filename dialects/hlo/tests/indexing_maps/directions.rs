//! The maps of an operation in both directions are one relation between elements.

use std::collections::BTreeSet;

use hlo::attributes::{ConvolutionDimensions, WindowDimension};
use hlo::indexing_maps::maps;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::ops::dot::DotAttributes;
use hlo::ops::gather::GatherAttributes;
use hlo::ops::ragged_dot::RaggedDotAttributes;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::typed_attributes::Dimension;
use indexing::IndexingMap;

use super::{context, map as parsed};

/// A value in bounds for each element of the indices, the same whichever map asks.
fn table(index: &[i64], upper: i64) -> i64 {
    index.iter().fold(7, |hash, i| (hash * 31 + i * 17 + 3) % 1009) % (upper + 1)
}

/// The pairs of source and target element, with run-time variables from the table.
fn pairs(map: &IndexingMap<'static>) -> BTreeSet<(Vec<i64>, Vec<i64>)> {
    // Points of the box of dimensions and ranges; constraints are checked with the run-time values.
    let sizes: Vec<_> = map.dims().iter().chain(map.ranges()).cloned().collect();
    let space = IndexingMap::new(context(), sizes, Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut found = BTreeSet::new();
    for point in space.points() {
        let (dims, ranges) = point.dims.split_at(map.dims().len());
        let runtimes: Vec<i64> = map
            .runtimes()
            .iter()
            .map(|variable| {
                let source = variable.source.as_ref().expect("a source");
                let index: Vec<i64> =
                    source.index.iter().map(|e| e.evaluate(dims, ranges).expect("an index")).collect();
                table(&index, variable.bounds.upper)
            })
            .collect();
        if map.contains(dims, ranges, &runtimes) {
            found.insert((dims.to_vec(), map.evaluate(dims, ranges, &runtimes).expect("in bounds")));
        }
    }
    found
}

fn check(backwards: &IndexingMap<'static>, forwards: &IndexingMap<'static>) {
    let there = pairs(backwards);
    let back: BTreeSet<_> = pairs(forwards).into_iter().map(|(from, to)| (to, from)).collect();
    assert!(!there.is_empty());
    assert_eq!(there, back, "{backwards}\n{forwards}");
}

#[test]
fn shape_operations() {
    check_converse(&maps::broadcast(context(), &[3, 4, 2], &[2, 0]), "(d0, d1)[s0] -> (d1, s0, d0)");
    check(&maps::transpose(context(), &[2, 3, 4], &[2, 0, 1]), &maps::transpose(context(), &[4, 2, 3], &[1, 2, 0]));
    check(&maps::reshape(context(), &[4, 6], &[3, 8]), &maps::reshape(context(), &[3, 8], &[4, 6]));
    check(
        &maps::bitcast(context(), &[6, 5, 3], &[2, 1, 0], &[15, 6], &[0, 1]),
        &maps::bitcast(context(), &[15, 6], &[0, 1], &[6, 5, 3], &[2, 1, 0]),
    );
    check(&maps::bitcast_convert(context(), &[3, 4], &[3]), &maps::bitcast_convert(context(), &[3], &[3, 4]));
    check(
        &maps::slice(context(), &[3, 2], &[1, 0], &[2, 3]),
        &maps::slice_to_output(context(), &[7, 5], &[3, 2], &[1, 0], &[2, 3]),
    );
    check(
        &maps::pad(context(), &[9, 3], &[4, 5], &[1, -1], &[1, 0]),
        &maps::pad_to_output(context(), &[4, 5], &[9, 3], &[1, -1], &[1, 0]),
    );
    check(&maps::concatenate(context(), &[2, 9], 1, 4, 5), &maps::concatenate_to_output(context(), &[2, 5], 1, 4));
    check_converse(&maps::reduce(context(), &[3, 4, 2], &[0, 2]), "(d0, d1, d2) -> (d1)");
    check_converse(&maps::sort(context(), &[3, 4], 1), "(d0, d1)[s0] -> (d0, s0)");
}

fn check_converse(map: &IndexingMap<'static>, signature: &str) {
    let converse = map.converse().expect("only chooses indices");
    assert_eq!(converse.signature().to_string(), signature);
    check(map, &converse);
}

#[test]
fn what_has_no_converse() {
    assert!(parsed("(d0) -> (d0, d0), domain: d0 in [0, 9]").converse().is_none());
    assert!(parsed("(d0) -> (d0 + 1), domain: d0 in [0, 9]").converse().is_none());
    assert!(parsed("(d0, d1) -> (d0, d1), domain: d0 in [0, 9], d1 in [0, 9], d0 + d1 in [0, 5]").converse().is_none());
    // An array without elements has no map either way.
    let empty = maps::broadcast(context(), &[0, 3], &[]).converse().expect("known empty");
    assert!(empty.is_known_empty());
    assert_eq!((empty.dims().len(), empty.results().len()), (0, 2));
}

#[test]
fn collectives() {
    // The replica's place in its group is a run-time variable without a source: every place is looked at.
    let every_place = |map: &IndexingMap<'static>| {
        let all = map.symbols_to_dims();
        let dims = map.dims().len();
        all.points()
            .map(|p| (p.dims[..dims].to_vec(), all.evaluate(&p.dims, &[], &[]).expect("in bounds")))
            .collect::<BTreeSet<_>>()
    };
    let check = |backwards: &IndexingMap<'static>, forwards: &IndexingMap<'static>| {
        let back: BTreeSet<_> = every_place(forwards).into_iter().map(|(from, to)| (to, from)).collect();
        assert_eq!(every_place(backwards), back, "{backwards}\n{forwards}");
    };
    check(
        &maps::all_gather(context(), &[2, 3], &[2, 12], 1).0,
        &maps::all_gather_to_output(context(), &[2, 3], &[2, 12], 1),
    );
    check(
        &maps::reduce_scatter(context(), &[2, 3], 1, 4),
        &maps::reduce_scatter_to_output(context(), &[2, 12], &[2, 3], 1),
    );
    check(&maps::all_to_all(context(), &[2, 12], 1, 1, 4), &maps::all_to_all_to_output(context(), &[2, 12], 1, 1, 4));
    check(&maps::all_to_all(context(), &[8, 3], 1, 0, 4), &maps::all_to_all_to_output(context(), &[2, 12], 1, 0, 4));
}

const WINDOW: [WindowDimension; 2] = [
    WindowDimension {
        size: 3,
        stride: 2,
        padding_low: 1,
        padding_high: 2,
        window_dilation: 2,
        base_dilation: 1,
        reversal: false,
    },
    WindowDimension {
        size: 2,
        stride: 1,
        padding_low: 0,
        padding_high: 1,
        window_dilation: 1,
        base_dilation: 2,
        reversal: true,
    },
];

#[test]
fn windows() {
    check(
        &maps::reduce_window(context(), &[8, 4], &[4, 7], &WINDOW),
        &maps::reduce_window_to_output(context(), &[8, 4], &[4, 7], &WINDOW),
    );
    check(
        &maps::select_and_scatter_source(
            context(),
            &[8, 4],
            &[4, 7],
            &[WINDOW[0], WindowDimension { base_dilation: 1, ..WINDOW[1] }],
        ),
        &maps::select_and_scatter_source_to_output(
            context(),
            &[8, 4],
            &[4, 7],
            &[WINDOW[0], WindowDimension { base_dilation: 1, ..WINDOW[1] }],
        ),
    );
}

#[test]
fn contractions() {
    let numbers = DotAttributes {
        lhs_batch_dims: &[1],
        lhs_contracting_dims: &[2],
        rhs_batch_dims: &[0],
        rhs_contracting_dims: &[1],
        ..DotAttributes::new()
    };
    let (lhs, rhs) = maps::dot(context(), &[3, 2, 4], &[2, 4, 5], &[2, 3, 5], &numbers);
    check_converse(&lhs, "(d0, d1, d2)[s0] -> (d1, d0, s0)");
    check_converse(&rhs, "(d0, d1, d2)[s0] -> (d0, s0, d2)");
    // Rows in groups, each with a matrix of its own; and a contracted dimension in groups.
    let rows = RaggedDotAttributes {
        lhs_contracting_dims: &[1],
        rhs_contracting_dims: &[1],
        rhs_group_dims: &[0],
        ..RaggedDotAttributes::new(Dimension(0))
    };
    let (lhs, rhs) = maps::ragged_dot(context(), &[6, 4], &[3, 4, 5], &[6, 5], &rows);
    check_converse(&lhs, "(d0, d1)[s0] -> (d0, s0)");
    check_converse(&rhs, "(d0, d1, d2)[s0] -> (s0, d2)");
    let columns = RaggedDotAttributes {
        lhs_contracting_dims: &[1],
        rhs_contracting_dims: &[0],
        ..RaggedDotAttributes::new(Dimension(1))
    };
    let (lhs, rhs) = maps::ragged_dot(context(), &[6, 4], &[4, 5], &[3, 6, 5], &columns);
    check_converse(&lhs, "(d0, d1)[s0, s1] -> (s0, d0, s1)");
    check_converse(&rhs, "(d0, d1)[s0, s1] -> (s0, s1, d1)");
    for (groups, kernel) in [(1, [4, 3, 2, 6]), (2, [2, 3, 2, 6])] {
        let labels = ConvolutionDimensions {
            input_batch: 0,
            input_feature: 3,
            input_spatial: vec![1, 2],
            kernel_input_feature: 0,
            kernel_output_feature: 3,
            kernel_spatial: vec![1, 2],
            output_batch: 0,
            output_feature: 1,
            output_spatial: vec![2, 3],
        };
        let attributes = ConvolutionAttributes {
            window: &WINDOW,
            feature_group_count: groups,
            ..ConvolutionAttributes::new(&labels)
        };
        let (input_sizes, output_sizes) = ([2, 8, 4, 4], [2, 6, 4, 7]);
        let (input, kernel_map) = maps::convolution(context(), &input_sizes, &kernel, &output_sizes, &attributes);
        let (input_forwards, kernel_forwards) =
            maps::convolution_to_output(context(), &input_sizes, &kernel, &output_sizes, &attributes)
                .expect("valid dimension numbers");
        check(&input, &input_forwards);
        // The kernel's map does not leave out windows in the padding, as the reference's.
        let there = pairs(&kernel_map);
        assert!(pairs(&kernel_forwards).into_iter().all(|(from, to)| there.contains(&(to, from))));
    }
}

#[test]
fn batch_groups() {
    let labels = ConvolutionDimensions {
        input_batch: 0,
        input_feature: 2,
        input_spatial: vec![1],
        kernel_input_feature: 0,
        kernel_output_feature: 2,
        kernel_spatial: vec![1],
        output_batch: 2,
        output_feature: 0,
        output_spatial: vec![1],
    };
    let attributes =
        ConvolutionAttributes { window: &WINDOW[..1], batch_group_count: 3, ..ConvolutionAttributes::new(&labels) };
    let (input_sizes, kernel_sizes, output_sizes) = ([6, 8, 2], [2, 3, 6], [6, 4, 2]);
    let (input, _) = maps::convolution(context(), &input_sizes, &kernel_sizes, &output_sizes, &attributes);
    let (forwards, _) =
        maps::convolution_to_output(context(), &input_sizes, &kernel_sizes, &output_sizes, &attributes).expect("valid");
    // The map to the input names all groups; the group of an element is the last range variable's value.
    let group = maps::batch_group(context(), &output_sizes, &attributes).expect("several groups");
    let used = input.points().filter(|p| p.ranges.last().copied() == group.evaluate(&p.dims, &[]));
    let there: BTreeSet<_> =
        used.map(|p| (p.dims.clone(), input.evaluate(&p.dims, &p.ranges, &[]).expect("in bounds"))).collect();
    let back: BTreeSet<_> = pairs(&forwards).into_iter().map(|(from, to)| (to, from)).collect();
    assert_eq!(there, back);
}

#[test]
fn gather_and_scatter() {
    let numbers = GatherAttributes {
        operand_batching_dims: &[2],
        start_indices_batching_dims: &[1],
        ..GatherAttributes::new(&[1, 3], &[0], &[3, 0], 2, &[1, 4, 1, 2])
    };
    let (operand_sizes, indices_sizes, output_sizes) = ([5, 4, 3, 6], [2, 3, 2], [2, 4, 3, 2]);
    let (operand, indices) = maps::gather(context(), &operand_sizes, &indices_sizes, &output_sizes, &numbers, 0);
    let (operand_forwards, indices_forwards) =
        maps::gather_to_output(context(), &operand_sizes, &indices_sizes, &output_sizes, &numbers, 0);
    check(&operand, &operand_forwards);
    check(&indices, &indices_forwards);

    let numbers = ScatterAttributes {
        input_batching_dims: &[2],
        scatter_indices_batching_dims: &[0],
        ..ScatterAttributes::new(&[1], &[0], &[0, 1], 2)
    };
    let (operand_sizes, indices_sizes, updates_sizes) = ([5, 6, 3], [3, 2, 2], [3, 4, 2]);
    let (updates, _) = maps::scatter(context(), &operand_sizes, &indices_sizes, &updates_sizes, &numbers, 0);
    let forwards =
        maps::scatter_updates_to_output(context(), &operand_sizes, &indices_sizes, &updates_sizes, &numbers, 0);
    check(&updates, &forwards);
}
