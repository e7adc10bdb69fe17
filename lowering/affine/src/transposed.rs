//! Squares of elements that are read transposed.
//!
//! Where lanes would read elements far from each other, but neighbouring rows of the result read neighbours, a kernel takes as
//! many rows at once as there are lanes: vectors along the rows are loaded and transposed in registers, so that each cache
//! line is read once and no element by itself. A module transposes in one function for each type of elements, from memory
//! to memory: to LLVM a square is so much code that it would be most of a kernel's.

use indexing::{Expr, Interval, Var};
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};

use crate::access::MAX_SHUFFLED_STRIDE;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{ArrayRef, address_of, pointer_to};
use crate::scalar::{self, RegisterValue};
use crate::scope::{LaneAccess, Scope};
use crate::trace::{coefficient, trace};
use crate::walk::linear_address;

type Result<T> = std::result::Result<T, LoweringError>;

/// Alignment of the memory of a square.
const ALIGNMENT: i64 = 64;

/// Bytes within which processors move elements most easily.
const REGISTER_BYTES: usize = 16;

/// Rows of a square whose code stands side by side, if it is little, so that the processor computes them at once. A divisor of all
/// numbers of lanes that have squares.
const ROWS_TOGETHER: i64 = 2;

/// Instructions of a fusion up to which that is.
const FEW_INSTRUCTIONS: usize = 24;

/// Where the vectors of a square are in memory: the first one, and how far from each other they begin, in elements.
pub(crate) struct Vectors<'c> {
    pub memref: Value<'c>,
    pub element_bytes: i64,
    pub first: Expr<'c>,
    pub distance: i64,
}

impl<'c> Vectors<'c> {
    /// The address of the first one, and the distance of their addresses.
    pub(crate) fn addresses(&self, builder: &OpBuilder<'c>, scope: &Scope<'c>) -> Result<[Value<'c>; 2]> {
        let first = address_in(builder, scope, self.memref, self.first * self.element_bytes)?;
        Ok([first, builder.constant_index(self.distance * self.element_bytes)])
    }
}

/// The address of what lies some bytes from where an array begins.
pub(crate) fn address_in<'c>(
    builder: &OpBuilder<'c>,
    scope: &Scope<'c>,
    memref: Value<'c>,
    bytes: Expr<'c>,
) -> Result<Value<'c>> {
    let memory = builder.in_prologue(|builder| address_of(builder, memref));
    let offset = scope.emit(builder, scope.simplify(bytes))?;
    Ok(builder.addi(memory, offset))
}

/// How the rows of a square are loaded.
#[derive(Clone, Copy)]
pub(crate) enum RowLoad<'l, 'c> {
    /// As vectors of this type, which are what is stored.
    AsStored(Type<'c>),
    /// From a pointer; for equal names the same is done.
    By(&'l str, &'l dyn Fn(Value<'c>) -> Result<Value<'c>>),
}

/// Squares of a row of the result from which on what is written next is asked for along the row; of less, rows further.
const MANY_SQUARES: i64 = 16;

/// Bytes of the rows of the runtime's blocks of squares: a line of a cache.
const BYTES_OF_BLOCK: i64 = 64;

/// Transposes one or two squares that are neighbours where they are read, with a function of the runtime; says whether it has one.
fn transpose_squares<'c>(
    builder: &OpBuilder<'c>,
    scope: &Scope<'c>,
    (squares, lanes): (u32, u32),
    [from, to]: &[Vectors<'c>; 2],
) -> Result<bool> {
    let Some(suffix) = runtime_square(builder, to.element_bytes, lanes) else { return Ok(false) };
    let symbol = format!("halo_transpose_squares_{suffix}");
    let lanes = i64::from(lanes);
    let ahead = if to.distance >= MANY_SQUARES * lanes { 2 * lanes } else { 2 * lanes * to.distance };
    let mut arguments = [from.addresses(builder, scope)?, to.addresses(builder, scope)?].concat();
    arguments.push(builder.constant_index(squares.into()));
    arguments.push(builder.constant_index(ahead * to.element_bytes));
    builder.define_once(&symbol, |builder| builder.declare_function(&symbol, &[builder.index_type; 6], &[]));
    builder.call(&symbol, &arguments, &[]);
    Ok(true)
}

/// Transposes a square of twice as many lanes as the runtime's squares have, with a function of the runtime; says whether it has one.
fn transpose_block<'c>(
    builder: &OpBuilder<'c>,
    scope: &Scope<'c>,
    lanes: u32,
    [from, to]: &[Vectors<'c>; 2],
) -> Result<bool> {
    let is_square = runtime_square(builder, to.element_bytes, lanes).is_some();
    let half = runtime_square(builder, to.element_bytes, lanes / 2);
    let Some(suffix) = half.filter(|_| !is_square && i64::from(lanes) * to.element_bytes == BYTES_OF_BLOCK) else {
        return Ok(false);
    };
    let symbol = format!("halo_transpose_block_{suffix}");
    let arguments = [from.addresses(builder, scope)?, to.addresses(builder, scope)?].concat();
    builder.define_once(&symbol, |builder| builder.declare_function(&symbol, &[builder.index_type; 4], &[]));
    builder.call(&symbol, &arguments, &[]);
    Ok(true)
}

/// How the runtime names its squares of elements of some bytes, if it has such.
fn runtime_square(builder: &OpBuilder<'_>, element_bytes: i64, lanes: u32) -> Option<String> {
    let bits = 8 * element_bytes as u32;
    let is_in_runtime = (256..=builder.machine().runtime_tile_bits).contains(&(bits * lanes));
    (matches!(bits, 32 | 64) && is_in_runtime).then(|| format!("{bits}x{lanes}"))
}

/// Transposes a square of so many vectors from one place to another.
pub(crate) fn transpose_square<'c>(
    builder: &OpBuilder<'c>,
    scope: &Scope<'c>,
    (load, lanes): (RowLoad<'_, 'c>, u32),
    [from, to]: [Vectors<'c>; 2],
) -> Result<()> {
    let arguments = [from.addresses(builder, scope)?, to.addresses(builder, scope)?].concat();
    let element_bytes = to.element_bytes;
    if let (RowLoad::AsStored(_), Some(suffix)) = (load, runtime_square(builder, element_bytes, lanes)) {
        let symbol = format!("halo_transpose_{suffix}");
        builder.define_once(&symbol, |builder| builder.declare_function(&symbol, &[builder.index_type; 4], &[]));
        builder.call(&symbol, &arguments, &[]);
        return Ok(());
    }
    let load_row = |pointer| match load {
        RowLoad::AsStored(r#type) => Ok(load_from(builder, pointer, r#type, element_bytes)),
        RowLoad::By(_, load) => load(pointer),
    };
    let symbol = match load {
        RowLoad::AsStored(r#type) => format!("transpose_{}_v{lanes}", builder.element_type_of(r#type)),
        RowLoad::By(name, _) => format!("transpose_{name}_v{lanes}"),
    };
    let alignment = ("alignment", builder.integer_attribute(builder.integer_type(64), element_bytes));
    let mut defined = Ok(());
    builder.define_once(&symbol, |builder| {
        let parameters = [builder.index_type; 4];
        defined = builder.function(&symbol, &parameters, &[], &[builder.private()], |builder, function| {
            let [from, from_distance, to, to_distance] = function.parameters()[..] else {
                return Err(LoweringError::bug("a transposition without its places"));
            };
            let pointers = |first: Value<'c>, distance: Value<'c>| {
                let addresses = std::iter::successors(Some(first), move |&own| Some(builder.addi(own, distance)));
                addresses.take(lanes as usize).map(|address| pointer_to(builder, address))
            };
            let rows = pointers(from, from_distance).map(load_row).collect::<Result<Vec<_>>>()?;
            for (column, place) in transpose(builder, rows, element_bytes).into_iter().zip(pointers(to, to_distance)) {
                builder.effect("llvm.store", &[column, place], &[alignment]);
            }
            builder.effect("func.return", &[], &[]);
            Ok(())
        });
    });
    defined?;
    builder.call(&symbol, &arguments, &[]);
    Ok(())
}

/// Loads a vector of elements of some width from a pointer.
pub(crate) fn load_from<'c>(
    builder: &OpBuilder<'c>,
    pointer: Value<'c>,
    r#type: Type<'c>,
    element_bytes: i64,
) -> Value<'c> {
    let alignment = builder.integer_attribute(builder.integer_type(64), element_bytes);
    builder.value("llvm.load", &[pointer], r#type, &[("alignment", alignment)])
}

/// What a square reads of a parameter along its rows.
#[derive(Clone, Copy)]
struct Read<'c> {
    parameter: usize,
    /// Where the square's elements are, which depends on the row and the lane.
    address: Expr<'c>,
    /// How far from each other lanes are there.
    distance: i64,
}

/// Where the rows of squares go.
#[derive(Clone, Copy)]
struct Target<'c> {
    memref: Value<'c>,
    /// Where the first row begins there, and how far from each other rows do, in elements.
    first: Expr<'c>,
    distance: i64,
    /// Whether that is the result, whose next rows are asked for, and not a few rows that stay in the cache.
    is_result: bool,
}

/// What a square reads of a parameter, transposed: a vector for each of its rows.
pub(crate) struct Transposed<'c> {
    parameter: usize,
    /// Where the row that is computed reads.
    address: Expr<'c>,
    /// The rows in memory.
    rows: Value<'c>,
    /// The place of that row there.
    place: Expr<'c>,
}

impl<'c> Elemental<'_, 'c> {
    /// Computes squares: the elements at an index that depends on the lane and the row, row by row.
    pub(crate) fn each_row(
        &mut self,
        (row, count): (Var, u32),
        index: &[Expr<'c>],
        body: &mut dyn FnMut(&mut Self, &[Expr<'c>]) -> Result<()>,
    ) -> Result<()> {
        let builder = self.builder;
        let (reads, _) = self.transposed_reads((row, count), index)?;
        // Pieces that are shorter than vectors have none.
        let (size, lanes) = (i64::from(count), i64::from(self.scope.lanes().unwrap_or(count)));
        let mut squares = Vec::with_capacity(reads.len());
        for &read in &reads {
            let memory = self.inputs.get(read.parameter).map(|array| scalar::memory_type(builder, array.element_type));
            let memory = memory.ok_or_else(|| LoweringError::bug("missing fusion input"))?;
            let rows = builder.memref_type(&[size * lanes], memory);
            let rows = builder.in_prologue(|builder| builder.stack_buffer(rows, ALIGNMENT));
            let to = Target { memref: rows, first: self.scope.constant(0), distance: lanes, is_result: false };
            self.transpose_read((row, count), read, to)?;
            squares.push(rows);
        }
        let together = if self.computation.instructions.len() <= FEW_INSTRUCTIONS { ROWS_TOGETHER } else { 1 };
        self.loop_in(Interval::of_size(size / together), None, Vec::new(), &mut |emitter, number, _| {
            for part in 0..together {
                let number = number * together + part;
                let at = |expr: Expr<'c>| at_row(&emitter.scope, expr, row, number);
                let index: Vec<Expr<'c>> = index.iter().map(|&expr| at(expr)).collect();
                let here = |(&Read { parameter, address, .. }, &rows): (&Read<'c>, &Value<'c>)| Transposed {
                    parameter,
                    address: at(address),
                    rows,
                    place: number * lanes,
                };
                emitter.transposed = reads.iter().zip(&squares).map(here).collect();
                emitter.nested(|emitter| body(emitter, &index))?;
                emitter.transposed.clear();
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Copies squares, whose elements are one parameter's, to where they are in the output, if it reads them along their rows;
    /// says whether it did.
    pub(crate) fn copy_squares(
        &mut self,
        (row, count): (Var, u32),
        index: &[Expr<'c>],
        output: &ArrayRef<'c>,
    ) -> Result<bool> {
        let address = self.scope.simplify(linear_address(self.scope.context(), &output.dimensions, index));
        let distance = coefficient(&self.scope, address, row);
        let (reads, is_unconditional) = self.transposed_reads((row, count), index)?;
        let is_whole = is_unconditional && self.skipped_lanes == 0;
        let ([read], Some(distance), true) = (&reads[..], distance, is_whole) else { return Ok(false) };
        let first = self.scope.at_lane(at_row(&self.scope, address, row, self.scope.constant(0)), 0);
        let to = Target { memref: output.flat(self.builder), first, distance, is_result: true };
        self.transpose_read((row, count), *read, to)?;
        Ok(true)
    }

    /// What a parameter has at an index, if it was loaded with its square.
    pub(crate) fn loaded_transposed(
        &self,
        parameter: usize,
        array: &ArrayRef<'c>,
        index: &[Expr<'c>],
    ) -> Result<Option<RegisterValue<'c>>> {
        if self.transposed.is_empty() {
            return Ok(None);
        }
        let address = self.scope.simplify(linear_address(self.scope.context(), &array.dimensions, index));
        let is_read = |square: &&Transposed<'c>| square.parameter == parameter && square.address == address;
        let Some(square) = self.transposed.iter().find(is_read) else { return Ok(None) };
        let (builder, lanes) = (self.builder, self.scope.lanes());
        let r#type = scalar::load_type(builder, array.element_type, lanes);
        let loaded = self.scope.place(builder, &[square.place])?.load(builder, square.rows, r#type);
        Ok(Some(scalar::from_memory(builder, array.element_type, lanes, loaded)))
    }

    /// What a square reads along its rows, and whether it reads that for all elements.
    fn transposed_reads(&mut self, (row, count): (Var, u32), index: &[Expr<'c>]) -> Result<(Vec<Read<'c>>, bool)> {
        let (computation, inputs) = (self.computation, self.inputs);
        let mut reads: Vec<Read<'c>> = Vec::new();
        if self.scope.lanes().is_none_or(|lanes| count % lanes != 0) {
            return Ok((reads, false));
        }
        // What the tracer adds to the scope has no code.
        let found = self.nested(|emitter| trace(computation, &computation.roots(), index, &mut emitter.scope))?;
        for (parameter, address) in found.loads {
            let LaneAccess::Strided(distance) = self.scope.lane_access(address) else { continue };
            if distance <= MAX_SHUFFLED_STRIDE {
                continue;
            }
            let is_transposed = self.scope.holds(address) && coefficient(&self.scope, address, row) == Some(1);
            let is_known = reads.iter().any(|own| own.parameter == parameter && own.address == address);
            if is_transposed && !is_known && inputs.get(parameter).is_some_and(|array| array.parts() == 1) {
                reads.push(Read { parameter, address, distance });
            }
        }
        Ok((reads, found.conditions.is_empty()))
    }

    /// Transposes what squares read, one below the other.
    fn transpose_read(
        &self,
        (row, count): (Var, u32),
        Read { parameter, address, distance }: Read<'c>,
        to: Target<'c>,
    ) -> Result<()> {
        let (builder, scope) = (self.builder, &self.scope);
        let array = self.inputs.get(parameter).ok_or_else(|| LoweringError::bug("missing fusion input"))?;
        let memory = scalar::memory_type(builder, array.element_type);
        let element_bytes = array.element_type.byte_width() as i64;
        let lanes = scope.lanes().unwrap_or(count);
        let r#type = builder.vector_type(lanes, memory);
        let square = |number: u32| {
            let begin = i64::from(number * lanes);
            let own = scope.at_lane(at_row(scope, address, row, scope.constant(begin)), 0);
            let from = Vectors { memref: array.flat(builder), element_bytes, first: own, distance };
            let Target { memref, first, distance, .. } = to;
            [from, Vectors { memref, element_bytes, first: first + begin * distance, distance }]
        };
        if count == lanes && transpose_block(builder, scope, lanes, &square(0))? {
            return Ok(());
        }
        let squares = count / lanes;
        if to.is_result && squares <= 2 && transpose_squares(builder, scope, (squares, lanes), &square(0))? {
            return Ok(());
        }
        (0..squares)
            .try_for_each(|number| transpose_square(builder, scope, (RowLoad::AsStored(r#type), lanes), square(number)))
    }
}

/// An expression in one row.
fn at_row<'c>(scope: &Scope<'c>, expr: Expr<'c>, row: Var, number: Expr<'c>) -> Expr<'c> {
    scope.simplify(expr.substitute(&|variable| (variable == row).then_some(number)))
}

/// Transposes a square of vectors, whose number is a power of two, by what processors have instructions for: elements of two
/// vectors alternating within each 128 bits, then 128 bits from here and there.
fn transpose<'c>(builder: &OpBuilder<'c>, mut vectors: Vec<Value<'c>>, element_bytes: i64) -> Vec<Value<'c>> {
    let count = vectors.len();
    let block = (REGISTER_BYTES / element_bytes.max(1) as usize).clamp(1, count);
    let mask = |from: &dyn Fn(usize, usize) -> (usize, usize, usize)| -> Vec<u32> {
        let lane = |lane: usize| {
            let (vector, number, inside) = from(lane / block, lane % block);
            (vector * count + number * block + inside) as u32
        };
        (0..count).map(lane).collect()
    };
    // Each of as many vectors as a block has elements gets one column of them in every block.
    for step in (0..block.ilog2()).map(|stage| 1 << stage) {
        let alternating = [0, block / 2].map(|half| {
            mask(&|number, inside| {
                let piece = inside / step;
                (piece % 2, number, half + piece / 2 * step + inside % step)
            })
        });
        for first in (0..count).filter(|first| first & step == 0) {
            let (a, b) = (vectors[first], vectors[first | step]);
            [vectors[first], vectors[first | step]] = alternating.each_ref().map(|mask| builder.shuffle(a, b, mask));
        }
    }
    let vectors: Vec<Value> =
        vectors.into_iter().map(|vector| settled(builder, vector, count as i64 * element_bytes)).collect();
    // Of the vectors that have a column, each gets the same block.
    let blocks = count / block;
    let every_second = [0, 1]
        .map(|odd| mask(&|number, inside| (2 * number / blocks.max(1), 2 * number % blocks.max(1) + odd, inside)));
    let mut columns = vec![Vec::new(); block];
    for (column, of_column) in columns.iter_mut().enumerate() {
        let place = if block == 1 { 0 } else { column.reverse_bits() >> (usize::BITS - block.ilog2()) };
        *of_column = vectors.iter().skip(place).step_by(block).copied().collect();
        for _ in 0..blocks.ilog2() {
            let halves = every_second.each_ref().map(|mask| {
                of_column.chunks_exact(2).map(|pair| builder.shuffle(pair[0], pair[1], mask)).collect::<Vec<_>>()
            });
            *of_column = halves.concat();
        }
    }
    (0..count).map(|row| columns[row % block][row / block]).collect()
}

/// A vector of so many bytes as it is. LLVM looks for one shuffle that does what several do, through all of them: for a long
/// time, and in vain. What is settled it does not look into.
fn settled<'c>(builder: &OpBuilder<'c>, vector: Value<'c>, bytes: i64) -> Value<'c> {
    let lanes = (bytes / 4) as u32;
    if lanes < 2 || bytes % 4 != 0 {
        return vector;
    }
    let r#type = vector.r#type();
    let floats = builder.vector_type(lanes, Type::float32(builder.context()));
    let is_floats = r#type == floats;
    let bits = if is_floats { vector } else { builder.value("vector.bitcast", &[vector], floats, &[]) };
    let fenced = builder.intrinsic(&format!("llvm.arithmetic.fence.v{lanes}f32"), &[bits], floats);
    if is_floats { fenced } else { builder.value("vector.bitcast", &[fenced], r#type, &[]) }
}
