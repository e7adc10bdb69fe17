//! Indexing analysis: symbolic maps from the elements of one array to the elements of another.
//!
//! An [`IndexingMap`] is a function `f(d, s, rt)` with a domain: `d` are *dimension variables* (an index of
//! the source array), `s` are *range variables* (all their values are needed, e.g. a reduced dimension), `rt`
//! are *run-time variables* (values known only when the program runs, e.g. the offset of a dynamic-slice).
//! Every variable has bounds; further constraints say `expression in [lower, upper]`. The text form is that of
//! the document "Indexing analysis" (OpenXLA):
//! `(d0, d1)[s0]{rt0} -> (d0 + s0, d1 * 2 + rt0), domain: d0 in [0, 9], d1 in [0, 4], s0 in [0, 2], rt0 in [0, 7]`.
//!
//! The function is an `mlir::AffineMap`, whose dimensions are the dimension variables and whose symbols are the range
//! variables, then the run-time variables; expressions are `mlir::AffineExpr`s ([`Expr`]). `dialect` is the MLIR dialect
//! `indexing`.
//!
//! # The interface in one page
//!
//! ```text
//! Interval::new(0, 9)                    closed, saturating; + - * floordiv ceildiv modulo min max, comparisons (Option<bool>)
//!
//! Expr<'c>                               mlir::AffineExpr: Copy, compared and hashed by pointer
//!   Expr::dim(context, 0) symbol(context, 0) constant(context, 5); a + b, a - b, a * 3, -a (Expr or i64 operands)
//!   e.floordiv(8) e.ceildiv(8) e.modulo(8); Expr::binary(operator, a, b)
//!   e.kind() -> ExprKind                 exhaustive view: Constant(c) | Variable(Var) | Binary(Operator, l, r)
//!   e.evaluate(&dims, &symbols) -> Option<i64>                 None: division by zero, overflow, missing variable
//!   e.substitute(&|variable| Option<Expr>)  e.replace(&[Expr], &[Expr])  e.uses(Var)  e.variables()  map.parse_expr(text)?
//!   Linear::from_expr(e) -> Option       sum of coefficient * atom + constant (None: overflow); to_expr(context) back
//!
//! IndexingMap<'c>
//!   IndexingMap::new(context, dims, ranges, runtimes, results, constraints)
//!   IndexingMap::from_sizes(context, &[dim sizes], &[range sizes], results)
//!   IndexingMap::parse(context, text)?  map.to_string()  map.affine_map() -> AffineMap
//!   map.results() dims() ranges() runtimes() constraints() is_known_empty()
//!   map.range(i) -> Var  map.runtime(i) -> Var  map.as_runtime(Var) -> Option<usize>  map.context()
//!   first.compose(&second)?              second after first: x -> second(first(x)); not simplified
//!   map.simplify() -> bool               range-aware, idempotent, keeps the function on its domain
//!   map.remove_unused_symbols()  remove_unused_variables()  rescale_symbols()  symbols_to_dims()  ranges_to_dims(&[..])
//!   map.with_results(vec)  add_constraint(expr, interval)  bounds(Var)  variable(Var)  all_variables()
//!   map.replace_runtime(i, Expr)  set_runtime_source(i, ..)  set_range_size(i, size)  with_names(..)
//!   map.evaluate(..)  map.constraints_hold(..)  map.contains(..)  map.points()  map.inverse()  map.converse()  map.same_function(&other)
//!   map.simplify_expr(Expr) -> Expr      any expression over the map's variables, under its domain
//!   map.range_of(Expr) -> Interval       bounds of any expression over the domain (constraints used)
//!
//! queries::…                             what a code generator asks
//!   row_major_strides(&sizes)  strides_of_layout(&sizes, &minor_to_major)
//!   linearize(&map, &strides) -> Expr    one element offset for all results, simplified
//!   stride_along(&map, expr, Var, width) -> Access             Broadcast | Contiguous | Strided(c) | Irregular
//!   vectorised(&map, expr, Var, width) -> (map, lane, expr)    the expression itself in `width * q + lane`
//!   truth(&map, &Constraint, &[(Var, Interval)]) -> Option<bool>   constraint known true or false over a box
//!   interior_box(&map) -> Option<IndexingMap>                  sub-box in which no constraint needs a check
//!   utilisation(&maps, &operand_sizes) -> Utilisation          elements read, total, exact
//!   propagate_tile(&map, &sizes, &strides) -> Option<Tile>     operand's offsets (symbolic), sizes, strides
//!   symbolic_tiles(&map) -> Vec<SymbolicTile>                  all three symbolic, by cases
//!
//! dialect::{map_attribute, map_of}       #indexing.map in MLIR
//! ```
//!
//! The maps of HLO operations are `hlo::indexing_maps::maps`.

mod compose;
pub mod dialect;
mod error;
mod interval;
mod inverse;
mod linear;
mod map;
mod parse;
mod print;
pub mod queries;
mod range;
mod simplify;
mod variables;

pub use error::Error;
pub use interval::{Interval, ceil_div};
pub use linear::Linear;
pub use map::{Constraint, IndexingMap, Point, Points, RuntimeSource, Variable, variables_of_sizes};
pub use mlir_ext::affine::{Expr, ExprKind, Operator, Var};
pub use parse::MAX_DEPTH;
pub use range::RangeEvaluator;
pub use simplify::{PointVariables, Simplifier};
pub use variables::Removed;
