//! Signatures of nested computations: reducers (reduce, reduce-window, scatter, collectives), comparators, callees.

use super::view::{Label, counted, list};
use super::{OpError, OpView};
use crate::element_type::ElementType;
use crate::shape::{ProgramShape, Shape};

impl OpView<'_> {
    /// Computation `index` must be a reducer of these element types: (accumulators…, values…) -> accumulators,
    /// all scalars; one accumulator is returned bare, several as a tuple.
    pub fn reducer(&self, label: Label, index: usize, element_types: &[ElementType]) -> Result<(), OpError> {
        let scalars: Vec<Shape> = element_types.iter().map(|&element_type| Shape::scalar(element_type)).collect();
        let parameters = [scalars.as_slice(), scalars.as_slice()].concat();
        let result = match <[Shape; 1]>::try_from(scalars) {
            Ok([scalar]) => scalar,
            Err(scalars) => Shape::Tuple(scalars),
        };
        self.signature(label, index, &ProgramShape { parameters, result })
    }

    /// Computation `index` must be a comparator of these element types: for each a left and a right scalar, -> pred.
    pub fn comparator(&self, label: Label, index: usize, element_types: &[ElementType]) -> Result<(), OpError> {
        let parameters = element_types.iter().flat_map(|&element_type| vec![Shape::scalar(element_type); 2]).collect();
        self.signature(label, index, &ProgramShape { parameters, result: Shape::scalar(ElementType::Pred) })
    }

    /// Computation `index` must have this signature, layouts apart.
    pub fn signature(&self, label: Label, index: usize, expected: &ProgramShape) -> Result<(), OpError> {
        let found = self.computation(index)?;
        if found.parameters.len() == expected.parameters.len()
            && found.parameters.iter().zip(&expected.parameters).all(|(a, b)| super::same_sizes_and_types(a, b))
            && super::same_sizes_and_types(&found.result, &expected.result)
        {
            return Ok(());
        }
        let expected = format!("({}) -> {}", list(&expected.parameters.iter().collect::<Vec<_>>()), expected.result);
        let message = format!("computation {index} must have the signature {expected}, got {found}");
        Err(OpError { computation: Some(index), ..self.error(label, message) })
    }

    /// The values must be the arguments of computation `index`.
    pub fn arguments(&self, label: Label, index: usize, values: &[&Shape]) -> Result<(), OpError> {
        let parameters = &self.computation(index)?.parameters;
        if parameters.len() != values.len() {
            let message =
                format!("computation {index} takes {}, got {}", counted(parameters.len(), "argument"), values.len());
            return Err(self.error(label, message));
        }
        for (number, (parameter, value)) in parameters.iter().zip(values).enumerate() {
            if !super::same_sizes_and_types(parameter, value) {
                let message = format!("parameter {number} of computation {index} must be {parameter}, got {value}");
                return Err(self.error(label, message));
            }
        }
        Ok(())
    }

    /// The operands split into `inputs` and as many others (initial values, updates), `between` operands apart.
    pub fn paired_operands(&self, label: Label, between: usize) -> Result<usize, OpError> {
        let count = self.operands.len();
        if count < between + 2 || !(count - between).is_multiple_of(2) {
            let message = format!("takes an even number of operands besides {between}, at least 2, got {count} in all");
            return Err(self.error(label, message));
        }
        Ok((count - between) / 2)
    }
}

/// One result bare, several as a tuple: the result of operations that take several arrays at once.
pub fn bare_or_tuple(results: Vec<Shape>) -> Shape {
    match <[Shape; 1]>::try_from(results) {
        Ok([result]) => result,
        Err(results) => Shape::Tuple(results),
    }
}
