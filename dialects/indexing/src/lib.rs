//! Indexing analysis: symbolic maps from the elements of one array to the elements of another.
//!
//! An [`IndexingMap`] is a function `f(d, s, rt)` with a domain: `d` are *dimension variables* (an index of
//! the source array), `s` are *range variables* (all their values are needed, e.g. a reduced dimension), `rt`
//! are *run-time variables* (values known only when the program runs, e.g. the offset of a dynamic-slice).
//! Every variable has bounds; further constraints say `expression in [lower, upper]`. The text form is that of
//! the document "Indexing analysis" (OpenXLA):
//! `(d0, d1)[s0]{rt0} -> (d0 + s0, d1 * 2 + rt0), domain: d0 in [0, 9], d1 in [0, 4], s0 in [0, 2], rt0 in [0, 7]`.
//!
//! Nothing here needs an MLIR context, except `affine`, which exchanges maps with `mlir::AffineMap`, and `dialect`, the
//! MLIR dialect `indexing` (feature `mlir`, on by default).
//!
//! # The interface in one page
//!
//! ```text
//! Interval::new(0, 9)                    closed, saturating; + - * floordiv ceildiv modulo min max, comparisons (Option<bool>)
//!
//! Expr                                   immutable, cheap to clone, Send + Sync
//!   Expr::dim(0) range(0) runtime(0) constant(5); a + b, a - b, a * 3, -a (also with i64 operands)
//!   e.floordiv(8) e.ceildiv(8) e.modulo(8) (i64 or Expr operand); e.min(f) e.max(f)
//!   e.kind() -> ExprKind                 exhaustive view: Constant(c) | Variable(Var) | Binary(Operator, &l, &r)
//!   e.evaluate(&dims, &ranges, &runtimes) -> Option<i64>       None: division by zero, overflow, missing variable
//!   e.substitute(&|variable| Option<Expr>)  e.substitute_dims(&[Expr])  e.uses(Var)  e.variables()  parse_expr(text, &map)?
//!   Linear::from_expr(&e) -> Option      sum of coefficient * atom + constant (None: overflow); to_expr() back
//!
//! IndexingMap
//!   IndexingMap::new(dims, ranges, runtimes, results, constraints)
//!   IndexingMap::from_sizes(&[dim sizes], &[range sizes], results)
//!   text.parse::<IndexingMap>()  map.to_string()
//!   map.results() dims() ranges() runtimes() constraints() is_known_empty()
//!   first.compose(&second)?              second after first: x -> second(first(x)); not simplified
//!   map.simplify() -> bool               range-aware, idempotent, keeps the function on its domain
//!   map.remove_unused_symbols()  remove_unused_variables()  rescale_symbols()  symbols_to_dims()  ranges_to_dims(&[..])
//!   map.with_results(vec)  add_constraint(expr, interval)  bounds(Var)  variable(Var)  all_variables()
//!   map.replace_runtime(i, &Expr)  set_runtime_source(i, ..)  set_range_size(i, size)  with_names(..)
//!   map.evaluate(..)  map.constraints_hold(..)  map.contains(..)  map.points()  map.inverse()  map.converse()  map.same_function(&other)
//!   map.simplify_expr(&Expr) -> Expr     any expression over the map's variables, under its domain
//!   map.range_of(&Expr) -> Interval      bounds of any expression over the domain (constraints used)
//!
//! maps::…                                one constructor per class of HLO operation, from sizes and attributes alone;
//!                                        from the result to an operand, unless the name ends in _to_output
//!   identity scalar one_dimension all_of whole
//!   broadcast(out, dims)  transpose(in, perm)  reshape(in, out)  bitcast(in, layout, out, layout)
//!   slice(out, starts, strides) slice_to_output  pad(out, in, low, interior) pad_to_output
//!   concatenate(out, sizes_along_dim, dim, which) concatenate_to_output  reverse(sizes, dims)
//!   reduce(in, dims)  whole_along(sizes, dims)  sort(sizes, dim)
//!   reduce_window(in, out, &[WindowDimension]) reduce_window_in_order reduce_window_to_output
//!   select_and_scatter_{source,operand} select_and_scatter_source_to_output
//!   dot(lhs, rhs, out, &Dot) -> (lhs, rhs)  ragged_dot(lhs, rhs, out, &RaggedDot) -> (lhs, rhs)
//!   convolution(in, kernel, out, &Convolution) -> (input, kernel) convolution_to_output
//!   dynamic_slice(in, slice, &[Offset]) dynamic_slice_to_output  dynamic_update_slice[_window](out, update, &[Offset])
//!   gather(operand, indices, out, &Gather, id) -> (operand, indices) gather_to_output
//!   scatter(operand, indices, updates, &Scatter, id) -> (updates, indices) scatter_updates_to_output
//!   logical_to_physical(sizes, minor_to_major) physical_to_logical physical_sizes  all_gather reduce_scatter all_to_all (each also _to_output)
//!
//! queries::…                             what a code generator asks
//!   row_major_strides(&sizes)  strides_of_layout(&sizes, &minor_to_major)
//!   linearize(&map, &strides) -> Expr    one element offset for all results, simplified
//!   stride_along(&map, &expr, Var, width) -> Access            Broadcast | Contiguous | Strided(c) | Irregular
//!   vectorised(&map, &expr, Var, width) -> (map, lane, expr)   the expression itself in `width * q + lane`
//!   truth(&map, &Constraint, &[(Var, Interval)]) -> Option<bool>   constraint known true or false over a box
//!   interior_box(&map) -> Option<IndexingMap>                  sub-box in which no constraint needs a check
//!   utilisation(&maps, &operand_sizes) -> Utilisation          elements read, total, exact
//!   propagate_tile(&map, &sizes, &strides) -> Option<Tile>     operand's offsets (symbolic), sizes, strides
//!   symbolic_tiles(&map) -> Vec<SymbolicTile>                  all three symbolic, by cases
//!
//! Arithmetic                             what emits code implements it; emit(&expr) chooses the operations
//! dialect::{map_attribute, map_of, lower}                      #indexing.map and its operations in MLIR
//! ```

#[cfg(feature = "mlir")]
mod affine;
mod arithmetic;
mod compose;
#[cfg(feature = "mlir")]
pub mod dialect;
mod error;
mod expr;
mod interval;
mod inverse;
mod linear;
mod map;
pub mod maps;
mod parse;
mod print;
pub mod queries;
mod range;
mod simplify;
mod variables;

#[cfg(feature = "mlir")]
pub use affine::from_affine_expr;
pub use arithmetic::Arithmetic;
pub use error::Error;
pub use expr::{Expr, ExprKind, Operator, Var};
pub use interval::Interval;
pub use linear::Linear;
pub use map::{Constraint, IndexingMap, Point, Points, RuntimeSource, Variable, variables_of_sizes};
pub use parse::{MAX_DEPTH, parse_expr};
pub use range::RangeEvaluator;
pub use simplify::{PointVariables, Simplifier};
pub use variables::Removed;
