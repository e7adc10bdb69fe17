//! Operations that combine elements: those that do not exist are replaced by what changes nothing.

use hlo::attributes::WindowDimension;
use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use super::sizes::{Arithmetic, ArraySizes, Sizes, existing, masked, zeroed};
use super::{Site, Value};
use crate::graph_builder::{GraphBuilder, Number};

impl Site<'_> {
    /// Operands and their initial values: what does not exist of an operand becomes neutral.
    fn mask_reduced(&mut self) -> ArraySizes {
        let inputs = self.operands.len() / 2;
        let mut sizes = self.sizes_of(0);
        for input in 1..inputs {
            for (own, size) in sizes.iter_mut().zip(self.sizes_of(input)) {
                *own = own.or(size);
            }
        }
        for input in 0..inputs {
            let operand = self.operands[input];
            let neutral = match inputs {
                1 => neutral_element(self.builder, &self.instruction.computations[0], operand),
                _ => None,
            };
            let neutral = neutral.unwrap_or(self.operands[inputs + input]);
            self.operands[input] = masked(self.builder, operand, &sizes, neutral);
        }
        sizes
    }

    /// The value of an operation with one result, or a tuple of several of the same sizes.
    fn results(&mut self, sizes: ArraySizes) -> Value {
        let id = self.unchanged();
        let sizes = match &self.instruction.shape {
            Shape::Tuple(elements) => Sizes::Tuple(vec![Sizes::Array(sizes); elements.len()]),
            _ => Sizes::Array(sizes),
        };
        (id, sizes)
    }

    pub(super) fn reduce(&mut self) -> Option<Value> {
        let sizes = self.mask_reduced();
        let reduced = self.ints("dimensions");
        let kept = (0..sizes.len()).filter(|d| !reduced.contains(d)).map(|d| sizes[d]).collect();
        Some(self.results(kept))
    }

    pub(super) fn reduce_window(&mut self) -> Option<Value> {
        let sizes = self.mask_reduced();
        let window = self.instruction.attributes.window().to_vec();
        let windows = sizes.into_iter().zip(window).map(|(size, w)| self.windows(size, &w)).collect();
        Some(self.results(windows))
    }

    /// Number of places of a window over a dimension of a run-time size.
    fn windows(&mut self, size: Option<InstructionId>, w: &WindowDimension) -> Option<InstructionId> {
        let mut arithmetic = Arithmetic(self.builder);
        let last = arithmetic.plus(size?, -1);
        let last = arithmetic.times(last, w.base_dilation.max(1));
        // An empty base stays empty, dilated or not: its last element is before its first.
        let last = arithmetic.at_least(last, -1);
        let reach = (w.size - 1) * w.window_dilation;
        let room = arithmetic.plus(last, w.padding_low + w.padding_high - reach);
        let room = arithmetic.plus(room, w.stride.max(1));
        let room = arithmetic.at_least(room, 0);
        Some(arithmetic.divided(room, w.stride.max(1)))
    }

    pub(super) fn dot(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let names = [["lhs_batch_dims", "lhs_contracting_dims"], ["rhs_batch_dims", "rhs_contracting_dims"]];
        let numbers = names.map(|side| side.map(|name| self.ints(name)));
        self.mask_contracted(&numbers[0][1], &numbers[1][1]);
        let sizes = [self.sizes_of(0), self.sizes_of(1)];
        let batch = numbers[0][0].iter().zip(&numbers[1][0]).map(|(&l, &r)| sizes[0][l].or(sizes[1][r]));
        let free = (0..2).flat_map(|side| {
            let used = &numbers[side];
            let sizes = &sizes[side];
            (0..sizes.len()).filter(|d| !used[0].contains(d) && !used[1].contains(d)).map(|d| sizes[d])
        });
        let result = batch.chain(free).collect();
        Some((self.unchanged(), result))
    }

    /// Zeros, in both operands, where a contracted dimension ends.
    fn mask_contracted(&mut self, lhs: &[usize], rhs: &[usize]) {
        let sizes = [self.sizes_of(0), self.sizes_of(1)];
        let mut ends = sizes.clone().map(|sizes| vec![None; sizes.len()]);
        for (&l, &r) in lhs.iter().zip(rhs) {
            let size = sizes[0][l].or(sizes[1][r]);
            (ends[0][l], ends[1][r]) = (size, size);
        }
        for (operand, ends) in ends.iter().enumerate() {
            self.operands[operand] = zeroed(self.builder, self.operands[operand], ends);
        }
    }

    /// Spatial and feature dimensions end with zeros; the kernel must have its full size in space.
    pub(super) fn convolution(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let numbers = self.instruction.attributes.convolution_dimensions()?.clone();
        let (input, kernel) = (self.sizes_of(0), self.sizes_of(1));
        let groups = ["feature_group_count", "batch_group_count"];
        let is_grouped = groups.iter().any(|name| self.instruction.attributes.int(name).unwrap_or(1) != 1);
        if is_grouped || numbers.kernel_spatial.iter().any(|&d| kernel[d as usize].is_some()) {
            return None;
        }
        self.mask_contracted(&[numbers.input_feature as usize], &[numbers.kernel_input_feature as usize]);
        let mut ends = vec![None; input.len()];
        for &d in &numbers.input_spatial {
            ends[d as usize] = input[d as usize];
        }
        self.operands[0] = zeroed(self.builder, self.operands[0], &ends);
        let mut sizes = vec![None; input.len()];
        sizes[numbers.output_batch as usize] = input[numbers.input_batch as usize];
        sizes[numbers.output_feature as usize] = kernel[numbers.kernel_output_feature as usize];
        let window = self.instruction.attributes.window().to_vec();
        for ((&from, &to), w) in numbers.input_spatial.iter().zip(&numbers.output_spatial).zip(&window) {
            sizes[to as usize] = self.windows(input[from as usize], w);
        }
        Some((self.unchanged(), sizes))
    }

    /// What does not exist along the sorted dimension comes last: it is sorted by that first.
    pub(super) fn sort(&mut self) -> Option<Value> {
        let along = *self.ints("dimensions").first()?;
        let mut sizes = self.sizes_of(0);
        for operand in 1..self.operands.len() {
            for (own, size) in sizes.iter_mut().zip(self.sizes_of(operand)) {
                *own = own.or(size);
            }
        }
        let mut ends = vec![None; sizes.len()];
        ends[along] = sizes[along];
        let dimensions = self.dimensions_of(0);
        let Some(exists) = existing(self.builder, &dimensions, &ends) else { return Some(self.results(sizes)) };
        let count = self.operands.len();
        self.operands.push(exists);
        let comparator = existing_first(&self.instruction.computations[0], count);
        let shapes: Vec<Shape> =
            self.operands.iter().map(|&operand| Shape::Array(self.builder.array(operand))).collect();
        let attributes = self.instruction.attributes.clone();
        let sorted =
            self.builder.add_with(OpKind::Sort, Shape::Tuple(shapes), &self.operands, attributes, vec![comparator]);
        let results: Vec<InstructionId> = (0..count).map(|index| self.builder.element(sorted, index)).collect();
        Some(match &self.instruction.shape {
            Shape::Tuple(_) => (self.builder.tuple(&results), Sizes::Tuple(vec![Sizes::Array(sizes); count])),
            _ => (results[0], Sizes::Array(sizes)),
        })
    }
}

/// The comparator with a further pair of `pred`: what exists precedes what does not.
fn existing_first(comparator: &Computation, operands: usize) -> Computation {
    let mut builder = GraphBuilder::new(&comparator.name);
    let mut arguments: Vec<InstructionId> = Vec::with_capacity(2 * operands);
    for (number, &parameter) in comparator.parameters.iter().enumerate() {
        arguments.push(builder.parameter(number, comparator.get(parameter).shape.clone()));
    }
    let predicate = Shape::scalar(ElementType::Pred);
    let first = builder.parameter(2 * operands, predicate.clone());
    let second = builder.parameter(2 * operands + 1, predicate);
    let precedes = builder.splice(comparator, &arguments);
    let is_alone = builder.unary(OpKind::Not, second);
    let wins = builder.binary(OpKind::Or, is_alone, precedes);
    let root = builder.binary(OpKind::And, first, wins);
    builder.finish(comparator.name.clone(), root, Vec::new())
}

/// The element that a computation of one operation leaves everything as it is with.
fn neutral_element(
    builder: &mut GraphBuilder,
    computation: &Computation,
    operand: InstructionId,
) -> Option<InstructionId> {
    let root = computation.root();
    let combines_parameters = root.operands.len() == 2
        && root.operands[0] != root.operands[1]
        && root.operands.iter().all(|&operand| computation.get(operand).kind == OpKind::Parameter);
    if !combines_parameters {
        return None;
    }
    let element_type = builder.element_type(operand);
    let number = match (root.kind, element_type) {
        (OpKind::Add | OpKind::Or | OpKind::Xor, _) => Number::Integer(0),
        (OpKind::Multiply, _) | (OpKind::And, ElementType::Pred) => Number::Integer(1),
        (OpKind::And, _) => Number::Integer(-1),
        (OpKind::Maximum, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64) => {
            Number::Float(f64::NEG_INFINITY)
        }
        (OpKind::Minimum, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64) => {
            Number::Float(f64::INFINITY)
        }
        _ => return None,
    };
    let literal: Literal = crate::graph_builder::scalar_literal(element_type, number);
    Some(builder.literal(literal))
}
