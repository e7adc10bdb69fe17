//! Calls of C's `math.h` functions for `double`, as vector functions where the runtime has them.
//!
//! libmvec's names follow the x86-64 vector function ABI: `_ZGV`, the instruction set (`b` SSE4, `d` AVX2, `e` AVX-512), `N`
//! for unmasked, the number of lanes, `v` for each argument, `_`, the C name.

use super::{Math, parts::in_parts};
use melior::ir::Type;
use mlir_ext::builder::Value;

impl<'c> Math<'_, 'c> {
    /// The `double` function `name` of operands that are `f64`, or `f32` (and then correctly rounded but for rare cases).
    pub(super) fn library_in_double(self, name: &str, operands: &[Value<'c>]) -> Value<'c> {
        let element = self.builder.element_type_of(operands[0].r#type());
        let double = Type::float64(self.builder.context());
        if element == double {
            return self.library(name, operands);
        }
        let extended: Vec<_> = operands.iter().map(|&operand| self.builder.extf(operand, double)).collect();
        self.builder.truncf(self.library(name, &extended), element)
    }

    /// The function `name` of `f64` scalars or vectors.
    pub(super) fn library(self, name: &str, operands: &[Value<'c>]) -> Value<'c> {
        let builder = self.builder;
        let Some(lanes) = builder.lanes_of(operands[0].r#type()) else {
            return self.call_c(name, operands);
        };
        let widths = [(8, 'e', 512), (4, 'd', 256), (2, 'b', 128)];
        let width =
            widths.iter().find(|(width, _, bits)| *bits <= self.target.vector_library_bits && lanes % *width == 0);
        let Some((width, instruction_set, _)) = width else {
            let results: Vec<_> = (0..lanes)
                .map(|lane| {
                    let scalars: Vec<_> = operands.iter().map(|&value| builder.extract_lane(value, lane)).collect();
                    self.call_c(name, &scalars)
                })
                .collect();
            return builder.from_elements(&results);
        };
        let symbol = format!("_ZGV{instruction_set}N{width}{}_{name}", "v".repeat(operands.len()));
        in_parts(self.builder, *width, operands, |parts| self.call_external(&symbol, parts))
    }

    fn call_c(self, name: &str, operands: &[Value<'c>]) -> Value<'c> {
        if self.target.vector_library_bits == 0 {
            return self.own_double(name, operands);
        }
        self.call_external(name, operands)
    }

    fn call_external(self, symbol: &str, operands: &[Value<'c>]) -> Value<'c> {
        let r#type = operands[0].r#type();
        let types = vec![r#type; operands.len()];
        self.builder.define_once(symbol, |builder| builder.declare_function(symbol, &types, &[r#type]));
        self.builder.call_value(symbol, operands, r#type)
    }
}
