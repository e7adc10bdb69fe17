//! Random fusions: the composed maps name exactly the elements that a tracing interpreter reads, in both
//! directions. The interpreter has its own index arithmetic.

use std::collections::BTreeSet;

use hlo::attributes::{AttributeValue, Attributes, PaddingDimension, SliceDimension, WindowDimension};
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::indexing_maps::{Analysis, ValueIndexing};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;
use indexing::{Expr, IndexingMap, Interval, Var};

use super::context;

/// A small deterministic generator (xorshift64*), so that failures can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as i64 % n
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }

    fn permutation(&mut self, n: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..n as i64).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as i64 + 1) as usize);
        }
        order
    }

    fn subset(&mut self, n: usize) -> Vec<i64> {
        (0..n as i64).filter(|_| self.below(2) == 0).collect()
    }
}

/// Builds the fused computation; instruction 0 is a scalar parameter for padding and initial values.
struct Builder {
    instructions: Vec<Instruction>,
}

impl Builder {
    fn add(&mut self, kind: OpKind, sizes: &[i64], operands: &[usize], attributes: Attributes) -> usize {
        let number = self.instructions.len();
        let operands: Vec<_> = operands.iter().map(|&o| InstructionId(o as u32)).collect();
        let shape = Shape::array(ElementType::F32, sizes);
        let instruction = Instruction::new(format!("i{number}"), kind, shape, operands);
        self.instructions.push(instruction.with_attributes(attributes));
        number
    }

    fn sizes(&self, i: usize) -> Vec<i64> {
        self.instructions[i].shape.as_array().expect("an array").dimensions.clone()
    }
}

fn ints(name: &'static str, values: Vec<i64>) -> Attributes {
    Attributes::new().with(name, AttributeValue::Ints(values))
}

/// A random factorisation of `count` into at most four sizes.
fn factors(random: &mut Random, mut count: i64) -> Vec<i64> {
    let mut sizes = Vec::new();
    while count > 1 && sizes.len() < 3 {
        let divisors: Vec<i64> = (1..=count).filter(|d| count % d == 0).collect();
        let size = divisors[random.below(divisors.len() as i64) as usize];
        sizes.push(size);
        count /= size;
    }
    sizes.push(count);
    sizes
}

fn grow(random: &mut Random, builder: &mut Builder) {
    let from = random.between(1, builder.instructions.len() as i64 - 1) as usize;
    let sizes = builder.sizes(from);
    let rank = sizes.len();
    let count: i64 = sizes.iter().product();
    match random.below(14) {
        0 => {
            builder.add(OpKind::Negate, &sizes, &[from], Attributes::new());
        }
        1 => {
            let same: Vec<usize> = (1..builder.instructions.len()).filter(|&i| builder.sizes(i) == sizes).collect();
            let other = same[random.below(same.len() as i64) as usize];
            builder.add(OpKind::Add, &sizes, &[from, other], Attributes::new());
        }
        2 => {
            let permutation = random.permutation(rank);
            let output: Vec<i64> = permutation.iter().map(|&p| sizes[p as usize]).collect();
            builder.add(OpKind::Transpose, &output, &[from], ints("dimensions", permutation));
        }
        3 | 4 => {
            let output = factors(random, count);
            builder.add(OpKind::Reshape, &output, &[from], Attributes::new());
        }
        5 => {
            builder.add(OpKind::Reverse, &sizes, &[from], ints("dimensions", random.subset(rank)));
        }
        6 => {
            let slice: Vec<SliceDimension> = sizes
                .iter()
                .map(|&size| {
                    let start = random.below(size);
                    SliceDimension { start, limit: random.between(start + 1, size), stride: random.between(1, 3) }
                })
                .collect();
            let output: Vec<i64> = slice.iter().map(|s| (s.limit - s.start + s.stride - 1) / s.stride).collect();
            builder.add(OpKind::Slice, &output, &[from], Attributes::new().with("slice", AttributeValue::Slice(slice)));
        }
        7 if count <= 64 => {
            let padding: Vec<PaddingDimension> = sizes
                .iter()
                .map(|_| PaddingDimension {
                    low: random.between(-1, 2),
                    high: random.between(0, 2),
                    interior: random.below(3) / 2,
                })
                .collect();
            let output: Vec<i64> =
                sizes.iter().zip(&padding).map(|(&size, p)| size + (size - 1) * p.interior + p.low + p.high).collect();
            if output.iter().all(|&size| size > 0) {
                let attributes = Attributes::new().with("padding", AttributeValue::Padding(padding));
                builder.add(OpKind::Pad, &output, &[from, 0], attributes);
            }
        }
        8 if count <= 64 && rank > 0 => {
            let dimension = random.below(rank as i64) as usize;
            let mut output = sizes.clone();
            output[dimension] *= 2;
            builder.add(OpKind::Concatenate, &output, &[from, from], ints("dimensions", vec![dimension as i64]));
        }
        9 if rank < 4 && count <= 64 => {
            let place = random.between(0, rank as i64) as usize;
            let mut output = sizes.clone();
            output.insert(place, random.between(1, 3));
            let dimensions = (0..rank).map(|d| if d < place { d as i64 } else { d as i64 + 1 }).collect();
            builder.add(OpKind::Broadcast, &output, &[from], ints("dimensions", dimensions));
        }
        10 if rank > 0 && random.below(2) == 0 => {
            let dimensions = random.subset(rank);
            let kept = (0..rank).filter(|&d| !dimensions.contains(&(d as i64)));
            let output: Vec<i64> = kept.map(|d| sizes[d]).collect();
            builder.add(OpKind::Reduce, &output, &[from, 0], ints("dimensions", dimensions));
        }
        10 => {
            let window: Vec<WindowDimension> = sizes
                .iter()
                .map(|_| WindowDimension {
                    size: random.between(1, 3),
                    stride: random.between(1, 2),
                    padding_low: random.between(0, 1),
                    padding_high: random.between(0, 1),
                    window_dilation: random.between(1, 2),
                    base_dilation: random.between(1, 2),
                    reversal: false,
                })
                .collect();
            let output: Vec<i64> = sizes
                .iter()
                .zip(&window)
                .map(|(&size, w)| {
                    let base = (size - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
                    let extent = (w.size - 1) * w.window_dilation + 1;
                    if base < extent { 0 } else { (base - extent) / w.stride + 1 }
                })
                .collect();
            if output.iter().all(|&size| size > 0) {
                let attributes = Attributes::new().with("window", AttributeValue::Window(window));
                builder.add(OpKind::ReduceWindow, &output, &[from, 0], attributes);
            }
        }
        11 if rank > 0 => {
            let output: Vec<i64> = sizes.iter().map(|&size| random.between(1, size)).collect();
            let operands: Vec<usize> = std::iter::once(from).chain(sizes.iter().map(|_| 0)).collect();
            let attributes = ints("dynamic_slice_sizes", output.clone());
            builder.add(OpKind::DynamicSlice, &output, &operands, attributes);
        }
        // The last dimension of an array is contracted with its own.
        12 if (1..=2).contains(&rank) && count <= 16 => {
            let free = &sizes[..rank - 1];
            let last = AttributeValue::Ints(vec![rank as i64 - 1]);
            let attributes = ints("lhs_contracting_dims", vec![rank as i64 - 1]).with("rhs_contracting_dims", last);
            builder.add(OpKind::Dot, &[free, free].concat(), &[from, from], attributes);
        }
        13 if rank > 0 => {
            let dimension = random.below(rank as i64);
            builder.add(OpKind::Sort, &sizes, &[from], ints("dimensions", vec![dimension]));
        }
        _ => {}
    }
}

/// The value of the scalar parameter, as the start index of every dynamic slice.
const START: i64 = 1;

type Read = BTreeSet<(usize, Vec<i64>)>;

fn unravel(mut offset: i64, sizes: &[i64]) -> Vec<i64> {
    let mut index = vec![0; sizes.len()];
    for (place, &size) in index.iter_mut().zip(sizes).rev() {
        *place = offset % size;
        offset /= size;
    }
    index
}

fn ravel(index: &[i64], sizes: &[i64]) -> i64 {
    index.iter().zip(sizes).fold(0, |offset, (i, size)| offset * size + i)
}

fn every_index(sizes: &[i64]) -> Vec<Vec<i64>> {
    (0..sizes.iter().product()).map(|offset| unravel(offset, sizes)).collect()
}

/// Adds the parameters' elements that element `index` of instruction `i` is computed from.
fn trace(builder: &Builder, i: usize, index: &[i64], read: &mut Read) {
    let instruction = &builder.instructions[i];
    let attributes = &instruction.attributes;
    let operand = |n: usize| instruction.operands[n].index();
    let dimensions = attributes.ints("dimensions");
    match instruction.kind {
        OpKind::Parameter => {
            read.insert((i, index.to_vec()));
        }
        OpKind::Negate => trace(builder, operand(0), index, read),
        OpKind::Add => {
            trace(builder, operand(0), index, read);
            trace(builder, operand(1), index, read);
        }
        OpKind::Transpose => {
            let mut source = index.to_vec();
            for (d, &p) in dimensions.iter().enumerate() {
                source[p as usize] = index[d];
            }
            trace(builder, operand(0), &source, read);
        }
        OpKind::Reshape => {
            let source = unravel(ravel(index, &builder.sizes(i)), &builder.sizes(operand(0)));
            trace(builder, operand(0), &source, read);
        }
        OpKind::Reverse => {
            let sizes = builder.sizes(i);
            let mut source = index.to_vec();
            for &d in dimensions {
                source[d as usize] = sizes[d as usize] - 1 - index[d as usize];
            }
            trace(builder, operand(0), &source, read);
        }
        OpKind::Slice => {
            let source: Vec<i64> = index.iter().zip(attributes.slice()).map(|(&i, s)| s.start + i * s.stride).collect();
            trace(builder, operand(0), &source, read);
        }
        OpKind::Pad => {
            let sizes = builder.sizes(operand(0));
            let mut source = Vec::new();
            for ((&i, p), &size) in index.iter().zip(attributes.padding()).zip(&sizes) {
                let place = i - p.low;
                let step = p.interior + 1;
                if place >= 0 && place % step == 0 && place / step < size {
                    source.push(place / step);
                }
            }
            if source.len() == sizes.len() {
                trace(builder, operand(0), &source, read);
            }
        }
        OpKind::Concatenate => {
            let d = dimensions[0] as usize;
            let mut source = index.to_vec();
            let mut part = 0;
            while source[d] >= builder.sizes(operand(part))[d] {
                source[d] -= builder.sizes(operand(part))[d];
                part += 1;
            }
            trace(builder, operand(part), &source, read);
        }
        OpKind::Broadcast => {
            let source: Vec<i64> = dimensions.iter().map(|&d| index[d as usize]).collect();
            trace(builder, operand(0), &source, read);
        }
        OpKind::Reduce => {
            for source in every_index(&builder.sizes(operand(0))) {
                let kept = (0..source.len()).filter(|&d| !dimensions.contains(&(d as i64)));
                if kept.map(|d| source[d]).eq(index.iter().copied()) {
                    trace(builder, operand(0), &source, read);
                }
            }
        }
        OpKind::ReduceWindow => {
            let sizes = builder.sizes(operand(0));
            let window = attributes.window();
            for place in every_index(&window.iter().map(|w| w.size).collect::<Vec<_>>()) {
                let mut source = Vec::new();
                for (d, w) in window.iter().enumerate() {
                    let base = index[d] * w.stride + place[d] * w.window_dilation - w.padding_low;
                    if base >= 0 && base % w.base_dilation == 0 && base / w.base_dilation < sizes[d] {
                        source.push(base / w.base_dilation);
                    }
                }
                if source.len() == sizes.len() {
                    trace(builder, operand(0), &source, read);
                }
            }
        }
        OpKind::DynamicSlice => {
            let (sizes, taken) = (builder.sizes(operand(0)), builder.sizes(i));
            let starts = sizes.iter().zip(&taken).map(|(size, taken)| START.min(size - taken));
            let source: Vec<i64> = index.iter().zip(starts).map(|(i, start)| i + start).collect();
            trace(builder, operand(0), &source, read);
        }
        OpKind::Dot => {
            let sizes = builder.sizes(operand(0));
            let (left, right) = index.split_at(sizes.len() - 1);
            for contracted in 0..sizes[sizes.len() - 1] {
                for free in [left, right] {
                    trace(builder, operand(0), &[free, &[contracted]].concat(), read);
                }
            }
        }
        OpKind::Sort => {
            let d = dimensions[0] as usize;
            for place in 0..builder.sizes(i)[d] {
                let mut source = index.to_vec();
                source[d] = place;
                trace(builder, operand(0), &source, read);
            }
        }
        other => unreachable!("{other} is not generated"),
    }
}

/// The results of a map at given dimensions, for all values of its range variables.
fn image(map: &IndexingMap<'_>, dims: &[i64]) -> BTreeSet<Vec<i64>> {
    let mut fixed = map.clone();
    let mut fix = |variable: Var, value: i64| {
        fixed.add_constraint(Expr::variable(map.context(), variable), Interval::point(value));
    };
    for (i, &value) in dims.iter().enumerate() {
        fix(Var::Dim(i as u32), value);
    }
    for (i, variable) in map.runtimes().iter().enumerate() {
        fix(map.runtime(i), START.clamp(variable.bounds.lower, variable.bounds.upper));
    }
    if fixed.is_known_empty() {
        return BTreeSet::new();
    }
    fixed.points().map(|p| map.evaluate(&p.dims, &p.ranges, &p.runtimes).expect("in bounds")).collect()
}

fn images(indexing: &ValueIndexing<'_>, dims: &[i64]) -> BTreeSet<Vec<i64>> {
    let ValueIndexing::Known(entries) = indexing else { panic!("the maps are known") };
    entries.iter().flat_map(|entry| image(&entry.map, dims)).collect()
}

#[test]
fn composed_maps_agree_with_a_tracing_interpreter() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut elements, mut several) = (0u64, 0u64);
    for number in 0..1500 {
        let mut builder = Builder { instructions: Vec::new() };
        let parameter = |i: i64| Attributes::new().with("parameter_number", AttributeValue::Int(i));
        builder.add(OpKind::Parameter, &[], &[], parameter(0));
        for i in 1..=random.between(1, 2) {
            let sizes: Vec<i64> = (0..random.between(1, 3)).map(|_| random.between(1, 5)).collect();
            builder.add(OpKind::Parameter, &sizes, &[], parameter(i));
        }
        let parameters = builder.instructions.len();
        for _ in 0..random.between(2, 8) {
            grow(&mut random, &mut builder);
        }
        let root = builder.instructions.len() - 1;
        let fused = Computation {
            name: "fused".into(),
            parameters: (0..parameters).map(|i| InstructionId(i as u32)).collect(),
            root: InstructionId(root as u32),
            instructions: builder.instructions.clone(),
            annotations: Vec::new(),
        };
        let mut entry = Builder { instructions: builder.instructions[..parameters].to_vec() };
        let operands: Vec<usize> = (0..parameters).collect();
        let fusion = entry.add(OpKind::Fusion, &builder.sizes(root), &operands, Attributes::new());
        entry.instructions[fusion].computations.push(fused);
        let entry = Computation {
            name: "entry".into(),
            parameters: (0..parameters).map(|i| InstructionId(i as u32)).collect(),
            root: InstructionId(fusion as u32),
            instructions: entry.instructions,
            annotations: Vec::new(),
        };

        let mut analysis = Analysis::new(context(), &entry);
        let fusion = InstructionId(fusion as u32);
        let backwards = analysis.output_to_input(fusion, 0);
        several += u64::from(backwards.iter().any(|group| group.maps().len() > 1));
        let mut reads: Vec<(Vec<i64>, Read)> = Vec::new();
        for index in every_index(&builder.sizes(root)) {
            let mut read = Read::new();
            trace(&builder, root, &index, &mut read);
            reads.push((index, read));
        }
        for (index, read) in &reads {
            elements += 1;
            for (parameter, group) in backwards.iter().enumerate().skip(1) {
                let expected: BTreeSet<Vec<i64>> =
                    read.iter().filter(|(p, _)| *p == parameter).map(|(_, i)| i.clone()).collect();
                assert_eq!(images(group, index), expected, "fusion {number}, element {index:?}: {group:?}");
            }
        }
        for parameter in 1..parameters {
            let forwards = analysis.input_to_output(fusion, parameter);
            for source in every_index(&builder.sizes(parameter)) {
                let key = (parameter, source.clone());
                let expected: BTreeSet<Vec<i64>> =
                    reads.iter().filter(|(_, read)| read.contains(&key)).map(|(index, _)| index.clone()).collect();
                assert_eq!(images(&forwards[0], &source), expected, "fusion {number}, from {source:?}: {forwards:?}");
            }
        }
    }
    assert!(elements > 20_000, "only {elements} elements were compared");
    assert!(several > 100, "only {several} fusions read an operand in several ways");
}
