//! Roots.

use super::Math;
use mlir_ext::builder::Value;

impl<'c> Math<'_, 'c> {
    /// `1 / sqrt(x)` by the two exactly rounded instructions: 1.5 units in the last place, for any float type.
    pub(super) fn rsqrt(self, x: Value<'c>) -> Value<'c> {
        self.builder.divf(self.constant(x, 1.0), self.builder.sqrt(x))
    }
}
