//! What compiled code cannot do yet: a list that must shrink to none.

use std::collections::BTreeSet;

use hlo::op_kind::OpKind;

/// Operations whose cases may be refused by the compiler.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    ops: BTreeSet<OpKind>,
}

impl Gaps {
    /// Reads the list: one operation a line; `#` starts a comment.
    ///
    /// # Errors
    /// A text that names a line that is no operation.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let ops = lines.filter(|line| !line.is_empty()).map(|line| line.parse().map_err(|error| format!("{error}")));
        Ok(Gaps { ops: ops.collect::<Result<_, String>>()? })
    }

    /// Whether cases of the operation may be refused.
    pub fn contains(&self, op: OpKind) -> bool {
        self.ops.contains(&op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_operations() {
        let gaps = Gaps::read("# none of these\nsort  # yet\n\n").unwrap();
        assert!(gaps.contains(OpKind::Sort) && !gaps.contains(OpKind::Add));
        assert!(Gaps::read("sort quickly").is_err());
    }
}
