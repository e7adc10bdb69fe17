//! Reductions, windows, `map` and sorting: operations with a computation on scalars.

use super::windows::WindowLists;
use super::{Draft, HloBuilder, Op, Padding};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::ops::enumerations::{ComparisonDirection, ComparisonType};
use crate::ops::map::MapAttributes;
use crate::ops::reduce::ReduceAttributes;
use crate::ops::reduce_window::ReduceWindowAttributes;
use crate::ops::select_and_scatter::SelectAndScatterAttributes;
use crate::ops::sort::SortAttributes;
use crate::ops::top_k::TopKAttributes;
use crate::ops::typed_attributes::Dimension;
use crate::shape::Shape;

/// Element types of array operands; `None` if one has none, which is noted.
#[track_caller]
pub(super) fn element_types(b: &HloBuilder, method: &'static str, operands: &[Op<'_>]) -> Option<Vec<ElementType>> {
    let mut types = Vec::with_capacity(operands.len());
    for &operand in operands {
        types.push(b.array_of(method, operand)?.element_type);
    }
    Some(types)
}

fn scalars(types: &[ElementType]) -> Vec<Shape> {
    types.iter().map(|&element_type| Shape::scalar(element_type)).collect()
}

impl HloBuilder {
    /// The elements along dimensions combined, starting from `init`: `combine(accumulator, element)`.
    ///
    /// The order is not specified, so `combine` should be associative, and `init` its identity.
    #[track_caller]
    pub fn reduce<'b>(
        &'b self,
        operand: Op<'b>,
        init: Op<'b>,
        combine: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
        dimensions: &[i64],
    ) -> Op<'b> {
        self.reduce_variadic(&[operand], &[init], |b, old, new| combine(b, old[0], new[0]), dimensions)
    }

    /// All elements combined: [`reduce`](Self::reduce) along every dimension.
    #[track_caller]
    pub fn reduce_all<'b>(
        &'b self,
        operand: Op<'b>,
        init: Op<'b>,
        combine: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
    ) -> Op<'b> {
        let Some(array) = self.array_of("reduce_all", operand) else { return self.nothing() };
        let dimensions: Vec<i64> = (0..array.rank() as i64).collect();
        self.reduce(operand, init, combine, &dimensions)
    }

    /// [`reduce`](Self::reduce) of several arrays together; `combine` gets accumulators and elements, and returns a tuple,
    /// or a value if there is one array.
    #[track_caller]
    pub fn reduce_variadic<'b>(
        &'b self,
        operands: &[Op<'b>],
        inits: &[Op<'b>],
        combine: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>], &[Op<'s>]) -> Op<'s>,
        dimensions: &[i64],
    ) -> Op<'b> {
        let Some(types) = element_types(self, "reduce", operands) else { return self.nothing() };
        let parameters = scalars(&[types.as_slice(), &types].concat());
        let combiner = self.nested("reduce", &parameters, |b, values| {
            let (old, new) = values.split_at(values.len() / 2);
            combine(b, old, new)
        });
        let operands = [operands, inits].concat();
        self.push(
            Draft::new(OpKind::Reduce, &operands)
                .with_attributes(ReduceAttributes { dimensions })
                .computation(combiner),
        )
    }

    /// The elements of each window combined, starting from `init`.
    #[track_caller]
    pub fn reduce_window<'b>(
        &'b self,
        operand: Op<'b>,
        init: Op<'b>,
        combine: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: &Padding,
    ) -> Op<'b> {
        let lists = WindowLists {
            sizes: window_dimensions,
            strides: window_strides,
            base_dilations: &[],
            window_dilations: &[],
            padding,
        };
        self.windows_reduced(&[operand], &[init], |b, old, new| combine(b, old[0], new[0]), &lists)
    }

    /// [`reduce_window`](Self::reduce_window) of several arrays, with dilations of base and window; empty lists are ones.
    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "the document's list of arguments")]
    pub fn reduce_window_variadic<'b>(
        &'b self,
        operands: &[Op<'b>],
        inits: &[Op<'b>],
        combine: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>], &[Op<'s>]) -> Op<'s>,
        window_dimensions: &[i64],
        window_strides: &[i64],
        base_dilations: &[i64],
        window_dilations: &[i64],
        padding: &Padding,
    ) -> Op<'b> {
        let lists = WindowLists {
            sizes: window_dimensions,
            strides: window_strides,
            base_dilations,
            window_dilations,
            padding,
        };
        self.windows_reduced(operands, inits, combine, &lists)
    }

    #[track_caller]
    fn windows_reduced<'b>(
        &'b self,
        operands: &[Op<'b>],
        inits: &[Op<'b>],
        combine: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>], &[Op<'s>]) -> Op<'s>,
        lists: &WindowLists<'_>,
    ) -> Op<'b> {
        let method = "reduce_window";
        let Some(types) = element_types(self, method, operands) else { return self.nothing() };
        let Some(&first) = operands.first() else {
            return self.fail_rule(method, "takes at least one array".to_string());
        };
        let Some(array) = self.array_of(method, first) else { return self.nothing() };
        let window = match lists.over(&array.dimensions) {
            Ok(window) => window,
            Err(message) => return self.fail_rule(method, message),
        };
        let parameters = scalars(&[types.as_slice(), &types].concat());
        let combiner = self.nested("reduce_window", &parameters, |b, values| {
            let (old, new) = values.split_at(values.len() / 2);
            combine(b, old, new)
        });
        let operands = [operands, inits].concat();
        self.push(
            Draft::new(OpKind::ReduceWindow, &operands)
                .with_attributes(ReduceWindowAttributes { window: &window })
                .computation(combiner),
        )
    }

    /// Selects one element of each window over the operand, and combines the window's element of `source` into that
    /// place: `select(a, b)` is true to take `a`, the earlier one; `scatter(old, new)` starts from `init`.
    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "the document's list of arguments")]
    pub fn select_and_scatter<'b>(
        &'b self,
        operand: Op<'b>,
        select: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: &Padding,
        source: Op<'b>,
        init: Op<'b>,
        scatter: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
    ) -> Op<'b> {
        let method = "select_and_scatter";
        let Some(array) = self.array_of(method, operand) else { return self.nothing() };
        let lists = WindowLists {
            sizes: window_dimensions,
            strides: window_strides,
            base_dilations: &[],
            window_dilations: &[],
            padding,
        };
        let window = match lists.over(&array.dimensions) {
            Ok(window) => window,
            Err(message) => return self.fail_rule(method, message),
        };
        let parameters = scalars(&[array.element_type; 2]);
        let select = self.nested("select", &parameters, |b, values| select(b, values[0], values[1]));
        let scatter = self.nested("scatter", &parameters, |b, values| scatter(b, values[0], values[1]));
        self.push(
            Draft::new(OpKind::SelectAndScatter, &[operand, source, init])
                .with_attributes(SelectAndScatterAttributes { window: &window })
                .computation(select)
                .computation(scatter),
        )
    }

    /// A computation applied to the elements at each index. `static_operands` (2017) are scalars that every application
    /// gets after the elements.
    #[track_caller]
    pub fn map<'b>(
        &'b self,
        operands: &[Op<'b>],
        computation: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>]) -> Op<'s>,
        dimensions: &[i64],
        static_operands: &[Op<'b>],
    ) -> Op<'b> {
        let Some(&first) = operands.first() else {
            return self.fail_rule("map", "takes at least one array".to_string());
        };
        let Some(like) = self.array_of("map", first) else { return self.nothing() };
        let mut operands = operands.to_vec();
        for &operand in static_operands {
            let Some(array) = self.array_of("map", operand) else { return self.nothing() };
            if array.rank() != 0 {
                return self.fail_rule("map", format!("takes scalars as static operands, got {array}"));
            }
            operands.push(if like.rank() == 0 { operand } else { self.splat(operand, &like) });
        }
        let Some(types) = element_types(self, "map", &operands) else { return self.nothing() };
        let computation = self.nested("map", &scalars(&types), computation);
        self.push(
            Draft::new(OpKind::Map, &operands).with_attributes(MapAttributes { dimensions }).computation(computation),
        )
    }

    /// The operand sorted in ascending order along its last dimension; floats in the total order.
    #[track_caller]
    pub fn sort<'b>(&'b self, operand: Op<'b>) -> Op<'b> {
        let Some(array) = self.array_of("sort", operand) else { return self.nothing() };
        let order = array.element_type.is_float().then_some(ComparisonType::TotalOrder);
        let last = array.rank() as i64 - 1;
        self.sort_by(
            &[operand],
            |b, pairs| b.compare(pairs[0].0, pairs[0].1, ComparisonDirection::Lt, order, &[]),
            last,
            true,
        )
    }

    /// Arrays sorted together along a dimension, the last one if it is -1. `comparator` gets, for each array, an element
    /// of either place, and returns whether the first place comes before the second; it is a strict weak order. The
    /// result is a tuple if there are several arrays.
    #[track_caller]
    pub fn sort_by<'b>(
        &'b self,
        operands: &[Op<'b>],
        comparator: impl for<'s> FnOnce(&'s HloBuilder, &[(Op<'s>, Op<'s>)]) -> Op<'s>,
        dimension: i64,
        is_stable: bool,
    ) -> Op<'b> {
        let Some(types) = element_types(self, "sort", operands) else { return self.nothing() };
        let parameters: Vec<Shape> = types.iter().flat_map(|&t| [Shape::scalar(t), Shape::scalar(t)]).collect();
        let dimension = match operands.first().and_then(|&first| self.array_of("sort", first)) {
            Some(array) if dimension == -1 => array.rank() as i64 - 1,
            _ => dimension,
        };
        let comparator = self.nested("sort", &parameters, |b, values| {
            let pairs: Vec<_> = values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            comparator(b, &pairs)
        });
        self.push(
            Draft::new(OpKind::Sort, operands)
                .with_attributes(SortAttributes { dimensions: Dimension(dimension), is_stable })
                .computation(comparator),
        )
    }

    /// The k largest (or smallest) elements of the last dimension in order, and their indices: a tuple.
    #[track_caller]
    pub fn top_k<'b>(&'b self, operand: Op<'b>, k: i64, largest: bool) -> Op<'b> {
        self.push(Draft::new(OpKind::TopK, &[operand]).with_attributes(TopKAttributes { k, largest }))
    }
}
