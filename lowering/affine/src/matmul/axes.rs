//! Dimensions of a product, with the distances of neighbours in its arrays, as the indexing maps give them.

use indexing::{Expr, Linear, Operator, Var};

/// One dimension of the product with the distance of its neighbours in each array, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) size: i64,
    pub(super) a: i64,
    pub(super) b: i64,
    pub(super) c: i64,
}

/// The address of an operand's element as a sum over the variables of its indexing map.
pub(super) struct Addresses {
    pub(super) dims: Vec<(Var, i64)>,
    /// Variables of which a quotient is a term: the groups of a convolution's features.
    pub(super) groups: Vec<(Var, Group)>,
    pub(super) constant: i64,
}

/// What follows each other along a dimension, and how far apart its groups are in one or both operands.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) size: i64,
    pub(super) a: i64,
    pub(super) b: i64,
}

impl Addresses {
    /// `None` where the address is no such sum.
    pub(super) fn new(address: Expr<'_>) -> Option<Self> {
        let sum = Linear::from_expr(address)?;
        let (mut dims, mut groups) = (Vec::new(), Vec::new());
        for &(atom, factor) in &sum.terms {
            match atom.as_variable() {
                Some(variable) => dims.push((variable, factor)),
                None => {
                    let (dimension, size) = atom.as_binary_with_constant(Operator::FloorDiv)?;
                    groups.push((dimension.as_variable()?, Group { size, a: factor, b: factor }));
                }
            }
        }
        Some(Addresses { dims, groups, constant: sum.constant })
    }

    /// The groups along a dimension, of one size; `None` where there are several.
    pub(super) fn group([a, b]: [&Addresses; 2], variable: Var) -> Option<Option<Group>> {
        let of = |addresses: &Addresses| {
            let mut groups = addresses.groups.iter().filter(|(own, _)| *own == variable).map(|(_, group)| *group);
            let first = groups.next();
            groups.next().is_none().then_some(first)
        };
        Some(match (of(a)?, of(b)?) {
            (Some(a), Some(b)) if a.size == b.size => Some(Group { b: b.b, ..a }),
            (Some(_), Some(_)) => return None,
            (Some(a), None) => Some(Group { b: 0, ..a }),
            (None, Some(b)) => Some(Group { a: 0, ..b }),
            (None, None) => None,
        })
    }

    pub(super) fn of(&self, variable: Var) -> i64 {
        self.dims.iter().find(|(own, _)| *own == variable).map_or(0, |(_, factor)| *factor)
    }

    pub(super) fn dim(&self, dimension: usize) -> i64 {
        self.of(Var::Dim(dimension as u32))
    }
}

impl Axis {
    pub(super) const SINGLE: Axis = Axis { size: 1, a: 0, b: 0, c: 0 };

    /// The groups along an axis, one after the other.
    pub(super) fn of_groups(self, count: i64, group: &Group) -> Axis {
        let Group { size, a, b } = *group;
        Axis { size: count, a: size * self.a + a, b: size * self.b + b, c: size * self.c }
    }

    /// The elements of a group along an axis.
    pub(super) fn within(self, group: &Group) -> Axis {
        Axis { size: group.size, ..self }
    }

    /// Both as one axis, where the neighbours of `self` stand a whole `inner` apart.
    pub(super) fn merged(self, inner: Axis) -> Option<Axis> {
        let continues = |own: i64, inner_stride: i64| own == inner_stride * inner.size;
        let merges = continues(self.a, inner.a) && continues(self.b, inner.b) && continues(self.c, inner.c);
        merges.then_some(Axis { size: self.size * inner.size, ..inner })
    }
}

/// Removes the last axis and those that can be merged into it.
pub(super) fn merge_last(axes: &mut Vec<Axis>) -> Axis {
    axes.retain(|axis| axis.size != 1);
    let Some(mut merged) = axes.pop() else { return Axis::SINGLE };
    while let Some(both) = axes.last().and_then(|axis| axis.merged(merged)) {
        merged = both;
        axes.pop();
    }
    merged
}

/// Removes the axis that, with those that can be merged into it, is longest; the last of equal ones.
pub(super) fn merge_longest(axes: &mut Vec<Axis>) -> Axis {
    axes.retain(|axis| axis.size != 1);
    let mut best = (Axis::SINGLE, Vec::new());
    for innermost in (0..axes.len()).rev() {
        let (mut merged, mut parts) = (axes[innermost], vec![innermost]);
        while let Some((part, both)) = (0..axes.len())
            .filter(|part| !parts.contains(part))
            .find_map(|part| Some((part, axes[part].merged(merged)?)))
        {
            merged = both;
            parts.push(part);
        }
        if merged.size > best.0.size {
            best = (merged, parts);
        }
    }
    let mut position = 0;
    axes.retain(|_| {
        position += 1;
        !best.1.contains(&(position - 1))
    });
    best.0
}

/// Product of the sizes of axes.
pub(super) fn positions(axes: &[Axis]) -> i64 {
    axes.iter().map(|axis| axis.size).product()
}
