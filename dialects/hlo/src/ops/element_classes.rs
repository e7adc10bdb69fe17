//! Sets of element classes that operations accept.

use super::view::Label;
use super::{OpError, OpView};
use crate::element_type::ElementClass::{self, Complex, Float, Predicate, Signed, Unsigned};

/// A set of element classes.
pub type Classes = &'static [ElementClass];

/// Every class.
pub const ANY: [ElementClass; 5] = [Predicate, Signed, Unsigned, Float, Complex];
/// Everything but `pred`.
pub const ARITHMETIC: [ElementClass; 4] = [Signed, Unsigned, Float, Complex];
/// Types with a negative value.
pub const SIGNED: [ElementClass; 3] = [Signed, Float, Complex];
/// Numbers with an order.
pub const ORDERED: [ElementClass; 3] = [Signed, Unsigned, Float];
/// Floating-point types.
pub const FLOAT: [ElementClass; 1] = [Float];
/// Floating-point and complex types.
pub const COMPLEX_OR_FLOAT: [ElementClass; 2] = [Float, Complex];
/// Integers.
pub const INTEGER: [ElementClass; 2] = [Signed, Unsigned];
/// Types with bitwise logic.
pub const LOGICAL: [ElementClass; 3] = [Predicate, Signed, Unsigned];

impl OpView<'_> {
    /// The element type of an array operand must be in one of the classes.
    pub fn element_class(&self, label: Label, operand: usize, accepts: Classes) -> Result<(), OpError> {
        let element_type = self.array(operand)?.element_type;
        if accepts.contains(&element_type.class()) {
            return Ok(());
        }
        let message = format!("must have a {} element type, got {element_type}", names(accepts));
        Err(self.operand_error(label, operand, message))
    }
}

/// The classes in words: `integer or floating-point`.
fn names(classes: Classes) -> String {
    let integers = INTEGER.iter().all(|class| classes.contains(class));
    let mut names: Vec<&str> = Vec::new();
    for class in classes {
        let name = match class {
            Predicate => "pred",
            Signed | Unsigned if integers => "integer",
            Signed => "signed integer",
            Unsigned => "unsigned integer",
            Float => "floating-point",
            Complex => "complex",
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}
