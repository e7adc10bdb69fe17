//! Every operation's maps in both directions are one relation between elements, and the operations without maps are
//! those that are known to have none.

use std::collections::{BTreeMap, BTreeSet};

use hlo::graph::{Computation, InstructionId};
use hlo::indexing_maps::{Analysis, ValueIndexing};
use hlo::op_kind::OpKind;
use hlo::ops::{self, OpClass};
use hlo::shape::Shape;
use indexing::IndexingMap;
use melior::Context;

const COMPUTATIONS: &str = "
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y) }
add_pairs { x = f32[] parameter(0)
  i = s32[] parameter(1)
  y = f32[] parameter(2)
  j = s32[] parameter(3)
  s = f32[] add(x, y)
  t = s32[] add(i, j)
  ROOT z = (f32[], s32[]) tuple(s, t) }
greater { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=GE }
less_pairs { x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT z = pred[] compare(x, y), direction=LT }
double { x = f32[] parameter(0)
  ROOT z = f32[] add(x, x) }
body { s = (s32[], f32[4,6]) parameter(0)
  ROOT z = (s32[], f32[4,6]) copy(s) }
condition { s = (s32[], f32[4,6]) parameter(0)
  ROOT z = pred[] constant(false) }
branch { x = f32[4,6] parameter(0)
  ROOT z = f32[4,6] negate(x) }
";

/// One instruction a line, but for those that only make values.
const ENTRY: &str = "
  a = f32[4,6] parameter(0)
  b = f32[4,6] parameter(1)
  i = s32[4,6] parameter(2)
  n = s32[] parameter(3)
  zero = f32[] constant(0)
  zero_index = s32[] constant(0)
  row = f32[6] parameter(4)
  column = f32[4] parameter(5)
  p = pred[] parameter(6)
  image = f32[2,5,5,4] parameter(7)
  kernel = f32[3,3,2,4] parameter(8)
  square = f32[3,3] parameter(9)
  halves = s16[4,2] parameter(10)
  complex = c64[2,3] parameter(11)
  state = u64[2] parameter(12)
  token = token[] after-all()
  positions = s32[3,2] parameter(13)
  updates = f32[3,2] parameter(14)
  updates_i = s32[3,2] parameter(15)
  groups = s32[3] parameter(16)
  matrices = f32[3,6,5] parameter(17)
  source = f32[2,3] parameter(18)
  series = f32[6,8,2] parameter(19)
  filter = f32[2,3,6] parameter(20)

  add.0 = f32[4,6] add(a, b)
  negate.0 = f32[4,6] negate(a)
  select.0 = f32[4,6] select(p, a, b)
  clamp.0 = f32[4,6] clamp(zero, a, b)
  map.0 = f32[4,6] map(a), dimensions={0,1}, to_apply=double
  convert.0 = s32[4,6] convert(a)
  reduce_precision.0 = f32[4,6] reduce-precision(a), exponent_bits=5, mantissa_bits=10
  copy.0 = f32[4,6] copy(a)
  copy_start.0 = (f32[4,6], f32[4,6], u32[]) copy-start(a)
  copy_done.0 = f32[4,6] copy-done(copy_start.0)
  domain.0 = f32[4,6] domain(a), domain={kind=\"sharding\", entry={replicated}, exit={replicated}}
  dependency.0 = f32[4,6] add-dependency(a, token)
  pair = (s32[4,6], s32[]) tuple(i, n)
  tuple.0 = (f32[4,6], (s32[4,6], s32[])) tuple(a, pair)
  element.0 = (s32[4,6], s32[]) get-tuple-element(tuple.0), index=1
  barrier.0 = (s32[4,6], s32[]) opt-barrier(pair)
  barrier.1 = f32[4,6] opt-barrier(a)

  broadcast.0 = f32[4,3,6] broadcast(a), dimensions={0,2}
  transpose.0 = f32[6,4] transpose(a), dimensions={1,0}
  reshape.0 = f32[3,8] reshape(a)
  dynamic_reshape.0 = f32[3,8] dynamic-reshape(a, n, n)
  bitcast.0 = f32[8,3] bitcast(a)
  bitcast.1 = s16[4,6,2] bitcast(a)
  bitcast_convert.0 = s32[4] bitcast-convert(halves)
  reverse.0 = f32[4,6] reverse(a), dimensions={1}
  slice.0 = f32[2,3] slice(a), slice={[1:4:2], [0:6:2]}
  pad.0 = f32[8,7] pad(a, zero), padding=1_0_1x2_-1
  concatenate.0 = f32[8,6] concatenate(a, b), dimensions={0}
  dynamic_slice.0 = f32[2,6] dynamic-slice(a, n, zero_index), dynamic_slice_sizes={2,6}
  dynamic_update_slice.0 = f32[4,6] dynamic-update-slice(a, source, n, n)
  gather.0 = f32[3,2,1] gather(a, positions), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,1}
  scatter.0 = f32[4,6] scatter(a, positions, updates), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add
  scatter.1 = (f32[4,6], s32[4,6]) scatter(a, i, positions, updates, updates_i), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add_pairs
  size.0 = s32[] get-dimension-size(a), dimensions={1}
  set_size.0 = f32[4,<=6] set-dimension-size(a, n), dimensions={1}

  reduce.0 = f32[4] reduce(a, zero), dimensions={1}, to_apply=add
  reduce.1 = (f32[6], s32[6]) reduce(a, i, zero, zero_index), dimensions={0}, to_apply=add_pairs
  reduce_window.0 = f32[4,3] reduce-window(a, zero), window={size=1x3 stride=1x2 pad=0_0x1_0}, to_apply=add
  reduce_window.1 = (f32[3,6], s32[3,6]) reduce-window(a, i, zero, zero_index), window={size=2x1}, to_apply=add_pairs
  select_and_scatter.0 = f32[4,6] select-and-scatter(a, source, zero), window={size=2x2 stride=2x2}, select=greater, scatter=add
  sort.0 = (f32[4,6], s32[4,6]) sort(a, i), dimensions={1}, to_apply=less_pairs
  topk.0 = (f32[4,2], s32[4,2]) topk(a), k=2, largest=true
  cholesky.0 = f32[3,3] cholesky(square), lower=true
  fft.0 = c64[2,3] fft(complex), fft_type=FFT, fft_length={3}
  fft.1 = c64[4,4] fft(a), fft_type=RFFT, fft_length={6}
  dot.0 = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ragged_dot.0 = f32[4,5] ragged-dot(a, matrices, groups), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  convolution.0 = f32[2,5,5,4] convolution(image, kernel), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2
  convolution.1 = f32[6,6,2] convolution(series, filter), window={size=3}, dim_labels=b0f_i0o->f0b, batch_group_count=3
  batch_norm.0 = (f32[4,6], f32[6], f32[6]) batch-norm-training(a, row, row), epsilon=0.1, feature_index=1
  batch_norm.1 = f32[4,6] batch-norm-inference(a, row, row, row, row), epsilon=0.1, feature_index=1
  batch_norm.2 = (f32[4,6], f32[6], f32[6]) batch-norm-grad(a, row, row, row, b), epsilon=0.1, feature_index=1
  rng.0 = f32[4,6] rng(zero, zero), distribution=rng_uniform
  bits.0 = (u64[2], u32[4,6]) rng-bit-generator(state), algorithm=rng_three_fry

  all_gather.0 = f32[4,12] all-gather(a), dimensions={1}, replica_groups={{0,1}}
  all_gather.1 = (f32[4,12], f32[4,12]) all-gather(a, b), dimensions={1}, replica_groups={{0,1}}
  all_reduce.0 = f32[4,6] all-reduce(a), replica_groups={{0,1}}, to_apply=add
  all_reduce.1 = (f32[4,6], f32[6]) all-reduce(a, row), replica_groups={{0,1}}, to_apply=add
  reduce_scatter.0 = f32[4,3] reduce-scatter(a), dimensions={1}, replica_groups={{0,1}}, to_apply=add
  all_to_all.0 = f32[4,6] all-to-all(a), dimensions={1}, replica_groups={{0,1}}
  all_to_all.1 = (f32[4,6], f32[4,6]) all-to-all(a, b), replica_groups={{0,1}}
  collective_broadcast.0 = f32[4,6] collective-broadcast(a), replica_groups={{0,1}}
  collective_permute.0 = f32[4,6] collective-permute(a), source_target_pairs={{0,1}}
  permute_start.0 = (f32[4,6], f32[4,6]) collective-permute-start(a), source_target_pairs={{0,1}}
  permute_done.0 = f32[4,6] collective-permute-done(permute_start.0)
  gather_start.0 = (f32[4,6], f32[4,12]) all-gather-start(a), dimensions={1}, replica_groups={{0,1}}
  gather_done.0 = f32[4,12] all-gather-done(gather_start.0)
  reduce_start.0 = f32[4,6] all-reduce-start(a), replica_groups={{0,1}}, to_apply=add
  reduce_done.0 = f32[4,6] all-reduce-done(reduce_start.0)

  triangular_solve.0 = f32[3,3] triangular-solve(square, square), left_side=true, transpose_a=NO_TRANSPOSE
  custom_call.0 = f32[4,6] custom-call(a), custom_call_target=\"f\"
  conditional.0 = f32[4,6] conditional(p, a, b), true_computation=branch, false_computation=branch
  pair.1 = (s32[], f32[4,6]) tuple(n, a)
  while.0 = (s32[], f32[4,6]) while(pair.1), condition=condition, body=body
  call.0 = f32[4,6] call(a), to_apply=branch
";

/// Operations with array operands and without maps. The reasons are in `docs/indexing.md`.
const UNKNOWN: [OpKind; 5] =
    [OpKind::Call, OpKind::Conditional, OpKind::CustomCall, OpKind::TriangularSolve, OpKind::While];

/// Operations without array operands, without maps, or that another test shows.
const NOT_SHOWN: [OpKind; 15] = [
    OpKind::AsyncDone,
    OpKind::AsyncStart,
    OpKind::AsyncUpdate,
    OpKind::Fusion,
    OpKind::Infeed,
    OpKind::Iota,
    OpKind::Outfeed,
    OpKind::PartitionId,
    OpKind::RaggedAllToAll,
    OpKind::Recv,
    OpKind::RecvDone,
    OpKind::ReplicaId,
    OpKind::RngGetAndUpdateState,
    OpKind::Send,
    OpKind::SendDone,
];

/// Leaf and index of an operand's element, leaf and index of a result's element.
type Pair = ((usize, Vec<i64>), (usize, Vec<i64>));

/// Pairs of an index and one it is taken to, for any values of range and run-time variables.
fn relation(map: &IndexingMap<'_>) -> Vec<(Vec<i64>, Vec<i64>)> {
    let all = map.symbols_to_dims();
    let dims = map.dims().len();
    all.points().map(|p| (p.dims[..dims].to_vec(), all.evaluate(&p.dims, &[], &[]).expect("in bounds"))).collect()
}

fn inside(shape: &Shape, leaf: usize, index: &[i64]) -> bool {
    let array = shape.leaves()[leaf].as_array().expect("an array");
    array.dimensions.len() == index.len() && index.iter().zip(&array.dimensions).all(|(i, size)| (0..*size).contains(i))
}

/// The relation between an operand and the result, found backwards and forwards; `None` where maps are not known.
fn relations(entry: &Computation, id: InstructionId, operand: usize) -> [Option<BTreeSet<Pair>>; 2] {
    let instruction = entry.get(id);
    let operand_shape = &entry.get(instruction.operands[operand]).shape;
    let context = Context::new_with_threading(false);
    let mut analysis = Analysis::new(&context, entry);
    let leaves = instruction.shape.leaves().len();
    let backwards: Vec<ValueIndexing> =
        (0..leaves).map(|leaf| analysis.output_to_input(id, leaf).swap_remove(operand)).collect();
    let forwards = analysis.input_to_output(id, operand);
    assert_eq!(forwards.len(), leaves, "{}", instruction.name);
    let collect = |groups: &[ValueIndexing], is_backwards: bool| {
        let mut pairs = BTreeSet::new();
        for (result, group) in groups.iter().enumerate() {
            let ValueIndexing::Known(entries) = group else { return None };
            for entry in entries {
                for (from, to) in relation(&entry.map) {
                    let (source, target) = if is_backwards { (to, from) } else { (from, to) };
                    // The map of a dynamic-update-slice goes beyond the update, as in the document.
                    if inside(operand_shape, entry.leaf, &source) {
                        assert!(inside(&instruction.shape, result, &target), "{}: {}", instruction.name, entry.map);
                        pairs.insert(((entry.leaf, source), (result, target)));
                    }
                }
            }
        }
        Some(pairs)
    };
    [collect(&backwards, true), collect(&forwards, false)]
}

#[test]
fn maps_of_every_operation_go_both_ways() {
    let module =
        hlo::text::read(&format!("HloModule m\n{COMPUTATIONS}\nENTRY e {{{ENTRY}  ROOT end = f32[4,6] copy(a)\n}}"))
            .unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry();
    let mut without: BTreeMap<String, OpKind> = BTreeMap::new();
    for (id, instruction) in entry.iter() {
        for operand in 0..instruction.operands.len() {
            if entry.get(instruction.operands[operand]).shape == Shape::Token {
                continue;
            }
            let name = format!("{} of operand {operand}", instruction.name);
            match relations(entry, id, operand) {
                [Some(there), Some(back)] if instruction.kind == OpKind::Convolution => {
                    // Backwards, the kernel's map names windows in the padding, and the input's all batch groups.
                    assert!(back.is_subset(&there), "{name}");
                }
                [Some(there), Some(back)] => assert_eq!(there, back, "{name}"),
                [None, None] => {
                    without.insert(instruction.name.clone(), instruction.kind);
                }
                [there, _] => panic!("{name}: known only {}", if there.is_some() { "backwards" } else { "forwards" }),
            }
        }
    }
    // Whatever the program lacks works element by element, or has no array operands or maps.
    for kind in OpKind::ALL {
        let shown = entry.instructions.iter().any(|instruction| instruction.kind == *kind);
        let elementwise = ops::definition(*kind).class == OpClass::Elementwise;
        assert!(shown || elementwise || NOT_SHOWN.contains(kind), "{kind} is missing in the program");
    }
    let kinds: BTreeSet<&str> = without.values().map(|kind| kind.text_name()).collect();
    assert_eq!(kinds, UNKNOWN.iter().map(|kind| kind.text_name()).collect::<BTreeSet<_>>());
}
