//! Operations that are made of others or of library calls: restricted to the valid elements.

use hlo::element_type::ElementType;
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::batch_norm::BatchNormAttributes;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::{PAD_TO_STATIC, SLICE_TO_DYNAMIC, is_annotation};
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::fft::FftAttributes;
use hlo::ops::sort::SortAttributes;
use hlo::ops::top_k::TopKAttributes;
use hlo::ops::triangular_solve::TriangularSolveAttributes;
use hlo::ops::typed_attributes::Dimension;

use super::combining::sorted_existing;
use super::sizes::{Arithmetic, ArraySizes, Sizes, existing, zeroed, zeroed_value};
use super::{Site, Value};
use crate::expand::batch_norm::{self, Counted};
use crate::expand::select_and_scatter;
use crate::graph_builder::total_order;

impl Site<'_> {
    /// `batch-norm-training` and `batch-norm-grad`: means over the valid elements; `batch-norm-inference`.
    pub(super) fn batch_norm(&mut self) -> Option<Value> {
        let BatchNormAttributes { feature_index, .. } = self.attributes()?;
        let feature = usize::try_from(feature_index).ok()?;
        let bounds = self.dimensions_of(0);
        let mut sizes = self.sizes_of(0);
        for operand in 1..self.operands.len() {
            match &self.sizes_of(operand)[..] {
                &[own] => sizes[feature] = sizes[feature].or(own),
                all => sizes.iter_mut().zip(all).for_each(|(size, &own)| *size = size.or(own)),
            }
        }
        if self.instruction.kind == OpKind::BatchNormInference {
            return Some((self.unchanged(), Sizes::Array(sizes)));
        }
        let mut count = Arithmetic(self.builder).constant(1);
        for d in (0..bounds.len()).filter(|&d| d != feature) {
            let size = Arithmetic(self.builder).size(sizes[d], bounds[d]);
            count = Arithmetic(self.builder).product(count, size);
        }
        let exists = existing(self.builder, &bounds, &sizes)?;
        let counted = Some(Counted { exists, count });
        let value = match self.instruction.kind {
            OpKind::BatchNormTraining => batch_norm::training(self.builder, self.instruction, &self.operands, counted),
            _ => batch_norm::gradient(self.builder, self.instruction, &self.operands, counted),
        };
        let by_feature = Sizes::Array(vec![sizes[feature]]);
        Some((value?, Sizes::Tuple(vec![Sizes::Array(sizes), by_feature.clone(), by_feature])))
    }

    /// Elements that do not exist are not selected, and windows that do not exist select nothing.
    pub(super) fn select_and_scatter(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let exists = [0, 1].map(|operand| {
            let (dimensions, sizes) = (self.dimensions_of(operand), self.sizes_of(operand));
            existing(self.builder, &dimensions, &sizes)
        });
        let value = select_and_scatter::expand(self.builder, self.instruction, &self.operands, exists)?;
        Some((value, self.sizes_of(0)))
    }

    /// Padding rows of matrices become identity rows: those of their factor are, too.
    pub(super) fn cholesky(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let mut sizes = self.sizes_of(0);
        let columns = sizes.len().checked_sub(1)?;
        let order = self.order(&sizes)?;
        self.operands[0] = self.ending_in_identity(order)?;
        (sizes[columns], sizes[columns - 1]) = (order, order);
        Some((self.unchanged(), sizes))
    }

    /// Equations that do not exist say that something is zero; `None` for a type without zero.
    pub(super) fn triangular_solve(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let (coefficients, mut sizes) = (self.sizes_of(0), self.sizes_of(1));
        let columns = sizes.len().checked_sub(1)?;
        let TriangularSolveAttributes { left_side: is_left, .. } = self.attributes()?;
        let along = if is_left { columns.checked_sub(1)? } else { columns };
        let order = sizes[along].or(self.order(&coefficients)?);
        self.operands[0] = self.ending_in_identity(order)?;
        sizes[along] = order;
        sizes.iter_mut().zip(&coefficients).take(columns - 1).for_each(|(own, &size)| *own = own.or(size));
        let mut ends = vec![None; sizes.len()];
        ends[along] = order;
        self.operands[1] = zeroed(self.builder, self.operands[1], &ends);
        Some((self.unchanged(), sizes))
    }

    /// The run-time order of operand 0's matrices, of these sizes, which must be square.
    fn order(&mut self, sizes: &[Option<InstructionId>]) -> Option<Option<InstructionId>> {
        let &[.., rows, columns] = sizes else { return None };
        if rows != columns {
            let bound = *self.dimensions_of(0).last()?;
            let mut arithmetic = Arithmetic(self.builder);
            let [rows, columns] = [rows, columns].map(|size| arithmetic.size(size, bound));
            arithmetic.require(rows, ComparisonDirection::Eq, columns, "the matrices are not square");
        }
        Some(columns.or(rows))
    }

    /// Operand 0, square matrices of a run-time order, with the rest of an identity behind; `None` for a type without
    /// zero.
    fn ending_in_identity(&mut self, order: Option<InstructionId>) -> Option<InstructionId> {
        let operand = self.operands[0];
        let shape = self.builder.array(operand);
        let [rows, columns] = [shape.rank().checked_sub(2)?, shape.rank() - 1];
        let mut ends = vec![None; shape.rank()];
        (ends[rows], ends[columns]) = (order, order);
        let Some(exists) = existing(self.builder, &shape.dimensions, &ends) else { return Some(operand) };
        shape.element_type.has_zero().then_some(())?;
        let [row, column] = [rows, columns].map(|d| self.builder.iota(ElementType::S32, &shape.dimensions, d));
        let diagonal = self.builder.compare(ComparisonDirection::Eq, row, column);
        let identity = self.builder.convert(diagonal, shape.element_type);
        Some(self.builder.select(exists, operand, identity))
    }

    /// Transforms have a fixed length; only how many there are may vary.
    pub(super) fn fft(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let sizes = self.sizes_of(0);
        let lengths = self.attributes::<FftAttributes>()?.fft_length.len();
        let is_fixed = sizes.iter().rev().take(lengths).all(Option::is_none);
        is_fixed.then(|| (self.unchanged(), sizes))
    }

    /// The largest of the valid elements: along a dimension of a run-time size, by a sort.
    pub(super) fn top_k(&mut self) -> Option<Value> {
        let mut sizes = self.sizes_of(0);
        let along = sizes.len().checked_sub(1)?;
        let end = sizes[along].take();
        let value = match end {
            None => self.unchanged(),
            Some(end) => {
                let count = *self.result_dimensions().last()?;
                let mut arithmetic = Arithmetic(self.builder);
                let least = arithmetic.constant(count);
                let reason = "k must be no more than the run-time size of the dimension";
                arithmetic.require(end, ComparisonDirection::Ge, least, reason);
                let shape = self.builder.array(self.operands[0]);
                let places = self.builder.iota(ElementType::S32, &shape.dimensions, along);
                // The custom call of this name gives the largest.
                let largest = match self.instruction.kind {
                    OpKind::TopK => self.attributes::<TopKAttributes>()?.largest,
                    _ => true,
                };
                let comparator = total_order(&self.instruction.name, shape.element_type, largest);
                let attributes = SortAttributes { dimensions: Dimension(along as i64), is_stable: true };
                let operands = [self.operands[0], places];
                let sorted = sorted_existing(self.builder, &operands, attributes.into(), &comparator, (along, end));
                let results: Vec<InstructionId> =
                    sorted.iter().map(|&operand| self.builder.slice(operand, along, 0, count)).collect();
                self.builder.tuple(&results)
            }
        };
        Some((value, Sizes::Tuple(vec![Sizes::Array(sizes); 2])))
    }

    /// An annotation is its operand. Functions see zeros in the padding, and give whole arrays.
    pub(super) fn custom_call(&mut self) -> Option<Value> {
        let CustomCallAttributes { custom_call_target: target, .. } = self.attributes()?;
        if is_annotation(target) {
            return Some(match (&self.operands[..], &self.sizes[..]) {
                ([operand], [sizes]) => (*operand, sizes.clone()),
                (operands, sizes) => (self.builder.tuple(operands), Sizes::Tuple(sizes.to_vec())),
            });
        }
        match target {
            "TopK" => return self.top_k(),
            PAD_TO_STATIC => return Some(self.pad_to_static()),
            SLICE_TO_DYNAMIC => return self.slice_to_dynamic(),
            _ => {}
        }
        for (operand, sizes) in self.operands.iter_mut().zip(&self.sizes) {
            *operand = zeroed_value(self.builder, *operand, sizes);
        }
        Some((self.unchanged(), Sizes::full(&self.instruction.shape)))
    }

    fn pad_to_static(&mut self) -> Value {
        let sizes = self.sizes_of(0);
        let bounds = self.dimensions_of(0);
        let mut elements = vec![zeroed_value(self.builder, self.operands[0], &self.sizes[0])];
        for (size, bound) in sizes.into_iter().zip(bounds) {
            elements.push(Arithmetic(self.builder).size(size, bound));
        }
        (self.builder.tuple(&elements), Sizes::full(&self.instruction.shape))
    }

    fn slice_to_dynamic(&mut self) -> Option<Value> {
        let bounds = self.dimensions_of(0);
        let mut sizes = vec![None; bounds.len()];
        for (dimension, bound) in bounds.into_iter().enumerate() {
            if self.instruction.shape.as_array()?.is_dynamic_dimension(dimension) {
                let mut arithmetic = Arithmetic(self.builder);
                let size = arithmetic.at_least(*self.operands.get(dimension + 1)?, 0);
                sizes[dimension] = Some(arithmetic.at_most(size, bound));
            }
        }
        Some((self.operands[0], Sizes::Array(sizes)))
    }
}
