//! Indexing analysis: symbolic maps from the elements of one array to the elements of another.
//!
//! An [`IndexingMap`] is a function `f(d, s, rt)` with a domain: `d` are *dimension variables* (an index of
//! the source array), `s` are *range variables* (all their values are needed, e.g. a reduced dimension), `rt`
//! are *run-time variables* (values known only when the program runs, e.g. the offset of a dynamic-slice).
//! Every variable has bounds; further constraints say `expression in [lower, upper]`. The text form is that of
//! the document "Indexing analysis" (OpenXLA):
//! `(d0, d1)[s0]{rt0} -> (d0 + s0, d1 * 2 + rt0), domain: d0 in [0, 9], d1 in [0, 4], s0 in [0, 2], rt0 in [0, 7]`.
//!
//! Nothing here needs an MLIR context, except `affine` (feature `mlir`, on by default), which exchanges
//! maps with `mlir::AffineMap`.
//!
//! # The interface in one page
//!
//! ```text
//! Interval::new(0, 9)                    closed, saturating; + - * floordiv ceildiv modulo min max, comparisons (Option<bool>)
//!
//! Expr                                   immutable, cheap to clone, Send + Sync
//!   Expr::dim(0) range(0) runtime(0) constant(5); a + b, a - b, a * 3, -a (also with i64 operands)
//!   e.floordiv(8) e.ceildiv(8) e.modulo(8) (i64 or Expr operand); e.min(f) e.max(f)
//!   e.kind() -> ExprKind                 exhaustive view: Constant | Dim | Range | Runtime | Add(l, r) | Mul | FloorDiv | CeilDiv | Mod | Min | Max
//!   e.evaluate(&dims, &ranges, &runtimes) -> Option<i64>       None: division by zero, overflow, missing variable
//!   e.substitute(&|variable| Option<Expr>)  e.substitute_dims(&[Expr])  e.uses(Variable)  e.variables()
//!   e.terms() -> Option<Linear>          sum of coefficient * atom + constant; Linear::to_expr() back
//!
//! IndexingMap
//!   IndexingMap::new(dims, ranges, runtimes, results, constraints)
//!   IndexingMap::from_sizes(&[dim sizes], &[range sizes], results)
//!   text.parse::<IndexingMap>()  map.to_string()
//!   map.results() dims() ranges() runtimes() constraints() is_known_empty()
//!   first.compose(&second)               second after first: x -> second(first(x)); not simplified
//!   map.simplify() -> bool               range-aware, idempotent, keeps the function on its domain
//!   map.remove_unused_symbols()  remove_unused_variables()  rescale_symbols()  symbols_to_dims()  ranges_to_dims(&[..])
//!   map.evaluate(..)  map.constraints_hold(..)  map.contains(..)  map.points()  map.inverse()  map.same_function(&other)
//!   map.simplify_expr(&Expr) -> Expr     any expression over the map's variables, under its domain
//!   map.range_of(&Expr) -> Interval      bounds of any expression over the domain (constraints used)
//!
//! maps::…                                one constructor per class of HLO operation, from sizes and attributes alone
//!   elementwise::identity; shape::{broadcast, transpose, reshape, bitcast, …}; slice::{slice, pad, concatenate, reverse, …};
//!   reduce::{reduce, …}; window::{reduce_window, …}; dot::…; convolution::…; dynamic::{dynamic_slice, gather, …}
//!
//! queries::…                             what a code generator asks
//!   linearize(&map, &strides) -> Expr    one element offset for all results, simplified
//!   stride_along(&map, &expr, Variable, width) -> Access   Broadcast | Contiguous | Strided(c) | Irregular
//!   truth(&map, &Constraint, &bounds) -> Option<bool>       constraint known true or false over a box
//!   guard_free_box(&map) …               part of the domain in which no constraint needs a check
//!   utilisation(..)  tile(..)            operand utilisation; offset, size and stride of the operand's tile
//! ```

mod compose;
mod error;
mod expr;
mod interval;
mod linear;
mod map;
mod parse;
mod print;
mod range;
mod simplify;
mod variables;

pub use error::Error;
pub use expr::{Expr, ExprKind, Operator, Var};
pub use interval::Interval;
pub use linear::Linear;
pub use map::{Constraint, IndexingMap, Point, Points, RuntimeSource, Variable, variables_of_sizes};
pub use parse::{MAX_DEPTH, parse_expr};
pub use range::RangeEvaluator;
pub use simplify::{PointVariables, Simplifier};
pub use variables::Removed;
