//! Tiles by matrix instructions: warps multiply fragments of 16-bit floats, and of 8-bit integers.
//!
//! Both operands lie in shared memory as rows of 16-byte chunks, from which `ldmatrix` takes the fragments: elements of 8 rows
//! (or columns) and 16 bytes of contracted positions each. An operand whose neighbours in memory are across the contracted
//! positions lies there as it does in memory, and is transposed on the way to registers; 8-bit ones cannot be. There are two
//! slabs of each operand: while the warps multiply one, the threads bring the next.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use indexing::{Expr, Interval, ceil_div};
use melior::ir::Type;
use melior::ir::attribute::DenseI64ArrayAttribute;
use mlir_ext::builder::{Body, OpBuilder, Value};

use super::{Product, Result, THREADS, Tile, are_vectors, is_near_along_depth};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::operand_maps::operand_shape;
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::team::{SHARED_SPACE, SharedValues, WARP, barrier};
use crate::walk::Visitor;

/// Rows and columns of the smallest tile.
pub(super) const SMALLEST_TILE: i64 = 64;

/// Warps of a block, along rows and along columns.
const WARPS: [i64; 2] = [2, 4];

/// Bytes of the chunks in which operands are brought, and of a row of a matrix that `ldmatrix` loads.
const CHUNK: i64 = 16;

/// Bytes of contracted positions of an instruction, and of a step.
const DEPTH: i64 = 32;
const STEP: i64 = 2 * DEPTH;

/// Rows of a matrix that `ldmatrix` loads, and columns of a fragment of the result.
const EIGHT: i64 = 8;

/// Rows of a fragment of the result, and rows or columns for which one `ldmatrix` loads.
const SIXTEEN: i64 = 16;

/// Slabs of an operand in shared memory.
const STAGES: i64 = 2;

/// Types of elements that tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TensorType {
    Bf16,
    F16,
    S8,
    U8,
}

impl TensorType {
    /// The type that has all values of an element type, one of the other operand's.
    fn of(element_type: ElementType, other: ElementType) -> Option<Self> {
        match (element_type.class(), element_type.bit_width()) {
            (ElementClass::Float, 16) if element_type == ElementType::BF16 => Some(TensorType::Bf16),
            (ElementClass::Float, 16) => Some(TensorType::F16),
            // Numbers from 2^-127 to 2^127.
            (ElementClass::Float, ..16) if element_type == ElementType::F8E8M0FNU => Some(TensorType::Bf16),
            (ElementClass::Float, ..16) if matches!(other, ElementType::BF16 | ElementType::F8E8M0FNU) => {
                Some(TensorType::Bf16)
            }
            (ElementClass::Float, ..16) => Some(TensorType::F16),
            (ElementClass::Signed, ..=8) => Some(TensorType::S8),
            (ElementClass::Unsigned, ..=8) => Some(TensorType::U8),
            _ => None,
        }
    }

    fn element_type(self) -> ElementType {
        match self {
            TensorType::Bf16 => ElementType::BF16,
            TensorType::F16 => ElementType::F16,
            TensorType::S8 => ElementType::S8,
            TensorType::U8 => ElementType::U8,
        }
    }

    /// The type of its elements as bits.
    fn bits(self) -> ElementType {
        if self.width() == 2 { ElementType::U16 } else { ElementType::U8 }
    }

    /// Bytes of an element.
    fn width(self) -> i64 {
        self.element_type().byte_width() as i64
    }
}

/// The types of a product that tensor cores make.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorOperands([TensorType; 2]);

impl TensorOperands {
    /// Those of a product, if there is an instruction that makes its sums.
    pub fn of(computation: &Computation, product: &Product<'_, '_>) -> Result<Option<Self>> {
        let mut types = [ElementType::Pred; 2];
        for (number, own) in types.iter_mut().enumerate() {
            *own = operand_shape(computation, product.instruction, number)?.element_type;
        }
        let [left, right] = types;
        let (Some(left), Some(right)) = (TensorType::of(left, right), TensorType::of(right, left)) else {
            return Ok(None);
        };
        let accumulator = product.accumulator(computation)?;
        let sums = match left.width() {
            2 => accumulator == ElementType::F32 && left == right,
            _ => matches!(accumulator, ElementType::S32 | ElementType::U32) && right.width() == 1,
        };
        Ok(sums.then_some(TensorOperands([left, right])))
    }

    /// The instruction's name in LLVM.
    fn intrinsic(self) -> &'static str {
        match self.0 {
            [TensorType::Bf16, _] => "llvm.nvvm.mma.m16n8k16.row.col.bf16",
            [TensorType::F16, _] => "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
            [TensorType::S8, TensorType::U8] => "llvm.nvvm.mma.m16n8k32.row.col.s8.u8",
            [TensorType::U8, TensorType::S8] => "llvm.nvvm.mma.m16n8k32.row.col.u8.s8",
            [TensorType::S8, _] => "llvm.nvvm.mma.m16n8k32.row.col.s8",
            [TensorType::U8, _] => "llvm.nvvm.mma.m16n8k32.row.col.u8",
        }
    }
}

/// One operand in shared memory.
struct Slab<'c> {
    operand: usize,
    r#type: TensorType,
    /// Whether chunks are along the contracted positions, rather than across them.
    is_along_depth: bool,
    /// Whether a chunk is a vector in memory.
    is_vector: bool,
    /// Whether the walk to its elements only moves them.
    is_moved: bool,
    /// Elements of a row, and rows, of one of its stages.
    row: i64,
    rows: i64,
    /// Where the thread's chunks are: the row and the number in it.
    chunks: Vec<[Expr<'c>; 2]>,
    shared: SharedValues<'c>,
    /// The address of the shared memory, and the byte in it from which the thread has `ldmatrix` load.
    address: Value<'c>,
    first: Expr<'c>,
}

impl<'c> Slab<'c> {
    /// Elements from a row to the next one: by an odd number of chunks, so that rows lie in different banks.
    fn pitch(&self) -> i64 {
        self.row + CHUNK / self.r#type.width()
    }

    fn bytes(&self, rows: i64) -> i64 {
        rows * self.pitch() * self.r#type.width()
    }
}

/// Emits the part of a fusion that a tile is.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    operands: TensorOperands,
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let lane = tile.thread.modulo(WARP);
    let lane = emitter.emit_symbol(lane, WARP)?;
    let warp = emitter.emit_symbol(tile.thread.floordiv(WARP), THREADS / WARP)?;
    let warp_row = emitter.emit_symbol(warp.floordiv(WARPS[1]), WARPS[0])?;
    let warp_column = emitter.emit_symbol(warp.modulo(WARPS[1]), WARPS[1])?;
    let sizes = WARPS.map(|warps| tile.side() / warps);
    let firsts = [warp_row * sizes[0], warp_column * sizes[1]];
    let mut slabs = Vec::with_capacity(2);
    for (operand, (r#type, first)) in operands.0.into_iter().zip(firsts).enumerate() {
        slabs.push(slab(tile, emitter, (operand, r#type), (first, lane), function)?);
    }
    let slabs: [Slab<'c>; 2] = slabs.try_into().map_err(|_| LoweringError::bug("a product has two operands"))?;
    Matrices { tile, operands, slabs, sizes, firsts, lane }.emit(emitter, outputs)
}

/// The place of an operand in shared memory, and of a thread's part in it.
fn slab<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    (operand, r#type): (usize, TensorType),
    (first, lane): (Expr<'c>, Expr<'c>),
    function: &Body<'c>,
) -> Result<Slab<'c>> {
    let (builder, computation, side) = (emitter.builder, emitter.computation, tile.side());
    let width = r#type.width();
    let of_chunk = CHUNK / width;
    let is_near_along_depth = is_near_along_depth(computation, tile.product.instruction, &tile.product.maps, operand)?;
    let is_along_depth = is_near_along_depth || width == 1;
    let number = tile.product.instruction.operands[operand];
    let is_moved = is_only_moved(computation, number, r#type.element_type());
    let is_vector = are_vectors(tile, computation, operand, usize::from(is_along_depth), of_chunk)?;
    let (row, rows) = if is_along_depth { (STEP / width, side) } else { (side, STEP / width) };
    let of_row = row / of_chunk;
    let mut chunks = Vec::new();
    for number in 0..rows * of_row / THREADS {
        let chunk = tile.thread + number * THREADS;
        // Neighbouring threads bring neighbouring chunks, or neighbouring elements of different ones.
        let [row, place] = match is_near_along_depth == is_along_depth {
            true => [chunk.floordiv(of_row), chunk.modulo(of_row)],
            false => [chunk.modulo(rows), chunk.floordiv(rows)],
        };
        let (row, place) = (emitter.scope.simplify(row), emitter.scope.simplify(place));
        chunks.push([emitter.emit_symbol(row, rows)?, emitter.emit_symbol(place, of_row)?]);
    }
    let zero = scalar::constant(builder, r#type.bits(), &[], None);
    let shared = SharedValues::new(builder, function, &zero, &[STAGES * rows, row + of_chunk]);
    let address = shared.address(builder);
    let mut slab = Slab {
        operand,
        r#type,
        is_along_depth,
        is_vector,
        is_moved,
        row,
        rows,
        chunks,
        shared,
        address,
        first: emitter.scope.constant(0),
    };
    // Lanes say where the rows of four matrices begin, eight each: which of both along the rows (or columns), which along the
    // contracted positions. In the left operand's fragments the former come first.
    let (half, quarter) = (lane.floordiv(EIGHT).modulo(2), lane.floordiv(SIXTEEN));
    let (along, depth) = if operand == 0 { (half, quarter) } else { (quarter, half) };
    let (own, chunk, first_row, first_byte) = match is_along_depth {
        true => (along, depth, first, emitter.scope.constant(0)),
        false => (depth, along, emitter.scope.constant(0), first * width),
    };
    let byte = (own * EIGHT + lane.modulo(EIGHT) + first_row) * slab.bytes(1) + chunk * CHUNK + first_byte;
    let byte = emitter.scope.simplify(byte);
    slab.first = emitter.emit_symbol(byte, slab.bytes(STAGES * rows))?;
    Ok(slab)
}

/// Whether an instruction's elements are those of a parameter of a type.
fn is_only_moved(computation: &Computation, id: InstructionId, element_type: ElementType) -> bool {
    let mut own = computation.get(id);
    while own.kind != OpKind::Parameter {
        if definition(own.kind).fusion != FusionRole::View {
            return false;
        }
        own = computation.get(own.operands[0]);
    }
    own.shape.as_array().is_some_and(|shape| shape.element_type == element_type)
}

struct Matrices<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    operands: TensorOperands,
    slabs: [Slab<'c>; 2],
    /// Rows and columns of a warp, and the first of its own.
    sizes: [i64; 2],
    firsts: [Expr<'c>; 2],
    lane: Expr<'c>,
}

impl<'a, 'c> Matrices<'_, '_, 'a, 'c> {
    fn emit(&self, emitter: &mut Elemental<'a, 'c>, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let tile = self.tile;
        let steps = ceil_div(tile.depth * self.slabs[0].r#type.width(), STEP);
        let first = emitter.scope.constant(0);
        let brought = self.bring(emitter, first)?;
        self.keep(emitter, first, &brought)?;
        barrier(emitter.builder);
        let [rows, columns] = self.fragments();
        let sums = vec![tile.zero.value; (rows * columns * 4) as usize];
        let sums = emitter.loop_in(Interval::of_size(steps), None, sums, &mut |emitter, step, sums| {
            // In the last step nobody needs what comes: it is the last slab again.
            let last = emitter.scope.constant(steps - 1);
            let next = emitter.scope.emit_min(emitter.builder, &[step + 1, last])?;
            let next = emitter.scope.add_variable(Interval::of_size(steps), Binding::Index(next));
            let brought = self.bring(emitter, next)?;
            let sums = self.multiply(emitter, step, sums)?;
            self.keep(emitter, step + 1, &brought)?;
            barrier(emitter.builder);
            Ok(sums)
        })?;
        // Of a fragment, a lane has two neighbours in a row, and two in that eight rows on.
        let (row, column) = (self.lane.floordiv(4), self.lane.modulo(4) * 2);
        for (number, sum) in (0..).zip(sums) {
            let (fragment, place) = (number / 4, number % 4);
            let row = self.firsts[0] + row + (fragment / columns * SIXTEEN + place / 2 * EIGHT);
            let column = self.firsts[1] + column + (fragment % columns * EIGHT + place % 2);
            tile.finish(emitter, outputs, (row, column), tile.zero.with_values(&[sum]))?;
        }
        Ok(())
    }

    /// Fragments of a warp's result, along rows and along columns.
    fn fragments(&self) -> [i64; 2] {
        [self.sizes[0] / SIXTEEN, self.sizes[1] / EIGHT]
    }

    /// The thread's chunks of both operands in a step, in the order of `keep`.
    fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<Vec<RegisterValue<'c>>> {
        let mut brought = Vec::new();
        for slab in &self.slabs {
            for &[row, chunk] in &slab.chunks {
                let of_chunk = CHUNK / slab.r#type.width();
                let (along, depth) =
                    if slab.is_along_depth { (row, chunk * of_chunk) } else { (chunk * of_chunk, row) };
                let along = self.tile.firsts[slab.operand] + along;
                let position = step * (STEP / slab.r#type.width()) + depth;
                brought.push(self.chunk(emitter, slab, [along, position])?);
            }
        }
        Ok(brought)
    }

    /// The elements of a chunk that begins at a row (or column) and a contracted position, as bits.
    fn chunk(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        slab: &Slab<'c>,
        first: [Expr<'c>; 2],
    ) -> Result<RegisterValue<'c>> {
        let builder = emitter.builder;
        let count = (CHUNK / slab.r#type.width()) as u32;
        let at = |distance: Expr<'c>| match (slab.is_along_depth, first) {
            (true, [along, position]) => [along, position + distance],
            (false, [along, position]) => [along + distance, position],
        };
        if slab.is_vector {
            let chunk = emitter.nested(|emitter| {
                let lane = emitter.scope.add_lanes(count);
                self.elements(emitter, slab, (at(lane), first))
            })?;
            return Ok(scalar::splat(builder, &chunk, Some(count)));
        }
        let mut elements = Vec::with_capacity(count as usize);
        for number in 0..count {
            let place = at(emitter.scope.constant(number.into()));
            elements.push(emitter.nested(|emitter| self.elements(emitter, slab, (place, place)))?);
        }
        scalar::from_elements(builder, &elements).ok_or_else(|| LoweringError::bug("a chunk without elements"))
    }

    /// Elements of an operand as bits, zeros where there are none.
    fn elements(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        slab: &Slab<'c>,
        places: ([Expr<'c>; 2], [Expr<'c>; 2]),
    ) -> Result<RegisterValue<'c>> {
        let (r#type, bits) = (slab.r#type.element_type(), slab.r#type.bits());
        let zero = scalar::constant(emitter.builder, bits, &[], None);
        self.tile.element(emitter, slab.operand, places, zero, &mut |emitter, id, index| {
            if slab.is_moved {
                return emitter.evaluate_bits(id, index);
            }
            let value = emitter.evaluate(id, index)?;
            let value = scalar::convert::convert(emitter.builder, &value, r#type)
                .ok_or_else(|| LoweringError::bug("an operand that tensor cores do not have"))?;
            Ok(RegisterValue { element_type: bits, value: scalar::to_memory(emitter.builder, &value), ..value })
        })
    }

    /// Puts what was brought into the shared memory of a step.
    fn keep(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, brought: &[RegisterValue<'c>]) -> Result<()> {
        let builder = emitter.builder;
        let mut brought = brought.iter();
        for slab in &self.slabs {
            let of_chunk = CHUNK / slab.r#type.width();
            for (&[row, chunk], value) in slab.chunks.iter().zip(&mut brought) {
                let place = [step.modulo(STAGES) * slab.rows + row, chunk * of_chunk];
                let place = place.map(|expr| emitter.scope.simplify(expr));
                let place = [emitter.scope.emit(builder, place[0])?, emitter.scope.emit(builder, place[1])?];
                slab.shared.store_vector(builder, value, &place);
            }
        }
        Ok(())
    }

    /// Adds the products of what is in the shared memory of a step to the sums.
    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        step: Expr<'c>,
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let mut firsts = Vec::with_capacity(2);
        for slab in &self.slabs {
            let byte = slab.first + step.modulo(STAGES) * slab.bytes(slab.rows);
            let byte = emitter.scope.emit(builder, emitter.scope.simplify(byte))?;
            firsts.push(builder.addi(slab.address, byte));
        }
        let [rows, columns] = self.fragments();
        let mut sums = sums;
        for part in 0..STEP / DEPTH {
            let words = |operand: usize, number: i64| {
                let slab = &self.slabs[operand];
                let offset = match slab.is_along_depth {
                    true => part * DEPTH + slab.bytes(number * SIXTEEN),
                    false => slab.bytes(part * DEPTH / slab.r#type.width()) + number * SIXTEEN * slab.r#type.width(),
                };
                load_matrices(builder, firsts[operand], offset, !slab.is_along_depth)
            };
            let left: Vec<[Value<'c>; 4]> = (0..rows).map(|number| words(0, number)).collect();
            // Columns of two fragments at once.
            let right: Vec<[Value<'c>; 4]> = (0..ceil_div(columns, 2)).map(|number| words(1, number)).collect();
            for row in 0..rows {
                for column in 0..columns {
                    let first = ((row * columns + column) * 4) as usize;
                    let (right, half) = (&right[column as usize / 2], column as usize % 2 * 2);
                    let product =
                        self.product(builder, &left[row as usize], &right[half..half + 2], &sums[first..first + 4]);
                    sums[first..first + 4].copy_from_slice(&product);
                }
            }
        }
        Ok(sums)
    }

    /// The instruction: a fragment of sums with products more.
    fn product(
        &self,
        builder: &OpBuilder<'c>,
        left: &[Value<'c>],
        right: &[Value<'c>],
        sums: &[Value<'c>],
    ) -> [Value<'c>; 4] {
        let operands = [left, right].concat().into_iter().map(|word| match self.operands.0[0] {
            TensorType::F16 => {
                let pair = builder.vector_type(2, Type::float16(builder.context()));
                builder.value("llvm.bitcast", &[word], pair, &[])
            }
            _ => word,
        });
        let operands: Vec<Value<'c>> = operands.chain(sums.iter().copied()).collect();
        four_results(builder, self.operands.intrinsic(), &operands, sums[0].r#type())
    }
}

/// What `ldmatrix` gives a lane of four matrices, whose rows begin at addresses in shared memory.
fn load_matrices<'c>(builder: &OpBuilder<'c>, address: Value<'c>, offset: i64, transposed: bool) -> [Value<'c>; 4] {
    let address = builder.addi(address, builder.constant_index(offset));
    let address = builder.value("arith.index_cast", &[address], builder.integer_type(64), &[]);
    let pointer = melior::dialect::llvm::r#type::pointer(builder.context(), SHARED_SPACE as u32);
    let address = builder.value("llvm.inttoptr", &[address], pointer, &[]);
    let name = match transposed {
        true => "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3",
        false => "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3",
    };
    four_results(builder, name, &[address], builder.integer_type(32))
}

/// The results of an intrinsic with four of a type.
fn four_results<'c>(builder: &OpBuilder<'c>, name: &str, operands: &[Value<'c>], r#type: Type<'c>) -> [Value<'c>; 4] {
    let all = melior::dialect::llvm::r#type::r#struct(builder.context(), &[r#type; 4], false);
    let all = builder.intrinsic(name, operands, all);
    [0, 1, 2, 3].map(|number| {
        let position = DenseI64ArrayAttribute::new(builder.context(), &[number]).into();
        builder.value("llvm.extractvalue", &[all], r#type, &[("position", position)])
    })
}
