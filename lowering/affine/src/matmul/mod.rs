//! Products of matrices: packed panels and a register tile, as in the usual blocked algorithms.
//!
//! A dot or convolution is seen as separate products (batches) of `C[m][n] += A[m][k] * B[k][n]` with strides, in
//! which the rows and the contracted positions are boxes of several dimensions: those of a convolution are the
//! places in space and in the window. The strides are the coefficients of the operation's indexing maps.
//! The work is split into groups of column panels, which may run on several threads: a group packs its panels of B
//! for one block of contracted positions, then walks the rows of A in blocks that stay in the second-level cache (packed
//! too, where they lie across pages).
//! The tile keeps its part of C in registers over a block. Products of few rows read B once, where it is
//! (`streamed`). What a fusion makes of the product's elements follows block by block (`epilogue`), and what it makes of those
//! of an operand is computed as they are packed (`prologue`).
//!
//! What does not fit the form (padding, dilated bases, other element types) takes the general path of
//! [`crate::contraction`].

mod attention;
mod axes;
mod emit;
mod epilogue;
mod matrices;
mod packing;
mod prologue;
mod runtime_packing;
mod runtime_tiles;
mod streamed;
mod tiled;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use indexing::Var;
use melior::Context;
use mlir_ext::builder::Machine;

use crate::access::{LARGE_ARRAY_BYTES, LINE_BYTES};
use crate::contraction::contraction_maps;
use crate::operand_maps::operand_shape;
use crate::walk::linear_address;

pub(crate) use attention::AttentionKernel;
use axes::{Addresses, Axis, merge_last, merge_longest, positions};
use emit::Operand;
pub(crate) use emit::emit_matmul;
pub(crate) use epilogue::Finish;
use epilogue::Stored;
use prologue::Source;
use streamed::STRIP_BYTES;

/// Longest block of contracted positions, and the bytes of a row of A or a column of B in it, at least of elements of 4 bytes.
const BLOCK_K: i64 = 512;
const BLOCK_K_BYTES: i64 = 4 * BLOCK_K;
/// Rows of A that are walked for each panel of a group, and most rows that are not divided for it.
const BLOCK_M: i64 = 96;

/// Terms of sums that are few beside what is written of each.
const FEW_TERMS: i64 = 32;
const MOST_M: i64 = 144;
/// Rows of a register tile whose sums are so many that no multiply-add waits for the one before.
const LEAST_TILE_ROWS: i64 = 5;
/// Bytes from one step to the next in A, and steps, from which on A is packed where its rows are consecutive.
const LEAST_PACKED_DISTANCE: u64 = 1024;
const LEAST_PACKED_STEPS: i64 = 64;
/// Bytes that addresses lie apart that have the same place in the first-level cache, and how many of them find room.
const PAGE: u64 = 4096;
const WAYS: i64 = 8;
/// Bytes of two tiles of A that find room in the first-level cache beside what passes through it of B.
const BYTES_OF_TILES: i64 = 24 << 10;
/// Bytes of an operand that is not in a cache before it is packed.
const LARGE: i64 = 1 << 20;
/// Bytes of a row of the panels that share a walk over A, and most bytes where that spares walks: a block of them stays in the
/// second-level cache.
const GROUP_ROW_BYTES: i64 = 512;
const MOST_GROUP_ROW_BYTES: i64 = 1024;
/// Panels that share a walk over A where its columns are packed on each walk.
const PANELS_OVER_PACKED_COLUMNS: i64 = 8;
/// Bytes of a B that is read where it is: packing it would cost more than the places that its rows take in the cache.
const SMALL_B: i64 = 1 << 16;
/// Features of a group of a convolution that are worth vectors along them, and multiplications for those of one place.
const LEAST_FEATURES: i64 = 8;
const LEAST_WORK_OF_PLACE: i64 = 800;
/// Rows of a product that each group of a convolution has, or terms of its sums: fewer are quicker computed one by one.
const LEAST_ROWS_OF_GROUP: i64 = 4;
const LEAST_TERMS_OF_GROUP: i64 = 36;
/// Products smaller than this (in multiplications) are not worth packing for.
const SMALLEST: i64 = 4096;
/// Tasks that the work is split into if columns and batches do not give that many.
const TASKS: i64 = 8;
/// Most rows of a product of a batch that reads a small B where it is though its rows are no whole vectors.
const MOST_ROWS_ACROSS_LINES: i64 = 128;
/// Most rows of a product that reads B where it is, and those of them from which on tiles do so, not a pass over B.
const MOST_STREAMED_ROWS: i64 = 8;
const LEAST_ROWS_IN_PLACE: i64 = 4;
/// Rows of a B that is read where it is, at most, of which the next columns find room in the second-level cache: rows that are pages
/// apart compete for it.
const BLOCK_K_IN_PLACE: i64 = 128;
/// Most columns of a product that reads A where it is, as B of its transpose, and bytes of a row of A that make up for
/// adding the lanes of its sums.
const MOST_STREAMED_COLUMNS: i64 = 4;
const LEAST_STREAMED_BYTES: i64 = 256;
/// Elements of a lane that are multiplied as integers of 16 bits.
const WORDS: i64 = 2;

/// Lanes of the runtime's vectors of bytes.
const BYTE_LANES: u32 = 16;

/// Steps of four bytes from which on a tile of the runtime is worth its call.
const LEAST_STEPS_OF_BYTES: i64 = 32;

/// Panels from which on bytes of A are packed, moved into the range of unsigned ones, rather than moved again for each of them.
const LEAST_PANELS_MOVED: i64 = 4;
/// Terms of a sum from which on it is long.
const LONG_SUM: i64 = 256;
/// Most elements of few rows that are copied because they do not lie as the columns of B do.
const MOST_COPIED: i64 = 1 << 14;

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In register tiles, from packed panels of B.
    Tiled,
    /// With one pass over B, which is not packed.
    Streamed,
}

/// A contraction in the form that the kernel computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatMul {
    form: Form,
    element_type: ElementType,
    /// Element types of A and B in memory; reading brings them into `element_type`.
    operand_types: [ElementType; 2],
    /// Where A and B come from.
    operands: [Source; 2],
    /// The kernel's output that C is.
    output: usize,
    /// Where the products begin in A, B and C.
    first: [i64; 3],
    /// Separate products.
    batch: Vec<Axis>,
    /// Rows beside `m`.
    rows: Vec<Axis>,
    m: Axis,
    n: Axis,
    /// Contracted positions beside `k`.
    contracted: Vec<Axis>,
    k: Axis,
    /// Contracted elements that one step takes: those of a lane's dot product. `k` counts steps.
    depth: i64,
    /// Steps of a block, at most.
    longest_k: i64,
    /// Whether tiles are in the registers of a matrix unit.
    in_matrices: bool,
    /// Whether the runtime has the tiles.
    in_runtime: bool,
    /// Sizes of the register tile: rows, where it is of vectors, and columns as vectors.
    vector_rows: i64,
    tile_vectors: i64,
    lanes: u32,
}

/// The kernel form of a dot or convolution, or of a fusion that goes on with its elements, if it has one.
pub fn recognise(
    context: &Context,
    computation: &Computation,
    instruction: &Instruction,
    vector_bits: u32,
    machine: Machine,
) -> Option<MatMul> {
    match instruction.kind {
        OpKind::Dot | OpKind::Convolution => {
            let sources = [Source::Input(0), Source::Input(1)];
            recognise_contraction(context, computation, instruction, (sources, None), vector_bits, machine)
        }
        OpKind::Fusion => {
            let body = instruction.computations.first()?;
            let finish = Finish::of(body)?;
            let contraction = body.get(finish.contraction);
            let source = |operand: usize| Source::of(body, contraction.operands[operand]);
            let sources = [source(0)?, source(1)?];
            let padding = finish.pad.as_ref().map_or(&[][..], |(_, padding)| padding);
            let is_inside =
                padding.iter().all(|padding| padding.low >= 0 && padding.high >= 0 && padding.interior == 0);
            let shape = contraction.shape.as_array()?;
            let is_result = |value: &InstructionId| {
                body.get(*value).shape.as_array().is_some_and(|value| value.element_type == shape.element_type)
            };
            let output = finish.values.iter().position(is_result)?;
            let keeps_rows = padding.last().is_none_or(|padding| padding.low == 0 && padding.high == 0);
            let places = (sources, Some(finish.stored(shape)));
            let product = recognise_contraction(context, body, contraction, places, vector_bits, machine)?;
            let is_finished_by_row = product.form == Form::Tiled && shape.dimensions.last() == Some(&product.n.size);
            let can_finish = is_finished_by_row || finish.is_contraction(body);
            (is_inside && keeps_rows && can_finish).then_some(MatMul { output, ..product })
        }
        _ => None,
    }
}

/// The element type of the product that a kernel is or begins with.
pub(crate) fn product_type(instruction: &Instruction) -> Option<ElementType> {
    let shape = match &instruction.computations[..] {
        [body] => &body.get(Finish::of(body)?.contraction).shape,
        _ => &instruction.shape,
    };
    Some(shape.as_array()?.element_type)
}

/// The kernel form of a contraction whose operands come from somewhere, and whose result is stored one element after the other
/// unless said otherwise.
fn recognise_contraction(
    context: &Context,
    computation: &Computation,
    instruction: &Instruction,
    (sources, stored): ([Source; 2], Option<Stored>),
    vector_bits: u32,
    machine: Machine,
) -> Option<MatMul> {
    let lhs = operand_shape(computation, instruction, 0).ok()?;
    let rhs = operand_shape(computation, instruction, 1).ok()?;
    let output = instruction.shape.as_array()?;
    let element_type = output.element_type;
    if !sums_in(element_type, [lhs.element_type, rhs.element_type]) {
        return None;
    }
    let maps = contraction_maps(context, computation, instruction).ok()?;
    if !maps.lhs.conditions.is_empty() {
        return None;
    }
    let addresses = [
        Addresses::new(linear_address(context, &lhs.dimensions, maps.lhs.map.results()))?,
        Addresses::new(linear_address(context, &rhs.dimensions, maps.rhs.results()))?,
    ];
    // The columns are those of the operand that gives the result's last dimension.
    let last = (0..output.rank()).rev().find(|&d| output.dimensions[d] != 1)?;
    let swapped = addresses[1].dim(last) == 0;
    let mut operand_types = [lhs.element_type, rhs.element_type];
    if swapped {
        operand_types.reverse();
    }
    let [a, b] = if swapped { [&addresses[1], &addresses[0]] } else { [&addresses[0], &addresses[1]] };
    let Stored { strides, first: first_of_c } =
        stored.unwrap_or_else(|| Stored { strides: output.strides(), first: 0 });
    let axis = |size: i64, variable: Var, c: i64| Axis { size, a: a.of(variable), b: b.of(variable), c };
    let (mut batch, mut rows, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for (d, &size) in output.dimensions.iter().enumerate() {
        let whole = axis(size, Var::Dim(d as u32), strides[d]);
        let parts = match Addresses::group([a, b], Var::Dim(d as u32))? {
            Some(group) if size % group.size == 0 => {
                vec![whole.of_groups(size / group.size, &group), whole.within(&group)]
            }
            Some(_) => return None,
            None => vec![whole],
        };
        for axis in parts {
            match (axis.a, axis.b) {
                (_, 0) => rows.push(axis),
                (0, _) => columns.push(axis),
                _ => batch.push(axis),
            }
        }
    }
    let mut contracted: Vec<Axis> =
        maps.ranges.iter().enumerate().map(|(r, &size)| axis(size, Var::Symbol(r as u32), 0)).collect();
    let product =
        output.dimensions.iter().chain(&maps.ranges).fold(1i64, |product, &size| product.saturating_mul(size));
    let has_groups = addresses.iter().any(|own| !own.groups.is_empty());
    let is_in_groups = Addresses::group([a, b], Var::Dim(last as u32))?.is_some();
    let terms = maps.ranges.iter().fold(1i64, |terms, &size| terms.saturating_mul(size));
    let n = merge_last(&mut columns);
    batch.append(&mut columns);
    let m = merge_longest(&mut rows);
    let k = merge_longest(&mut contracted);
    if product < SMALLEST || n.c != 1 {
        return None;
    }
    // Few columns take half of a vector, if each product of a batch is worth packing for or the half is full.
    let is_worth_packing = product / positions(&batch).max(1) >= SMALLEST;
    let bits = i64::from(element_type.bit_width());
    let whole = i64::from(vector_bits) / bits;
    let takes_half = n.size == whole / 2 || n.size > 1 && n.size < whole / 4 && is_worth_packing;
    let width = if takes_half { whole / 2 } else { whole };
    let mut product = MatMul {
        form: Form::Tiled,
        element_type,
        operand_types,
        operands: if swapped { [sources[1], sources[0]] } else { sources },
        output: 0,
        first: [a.constant, b.constant, first_of_c],
        batch,
        rows,
        m,
        n,
        contracted,
        k,
        depth: 1,
        longest_k: BLOCK_K_BYTES / element_type.byte_width().max(4) as i64,
        in_matrices: false,
        in_runtime: false,
        vector_rows: tile_rows(m.size, if width * bits >= 512 { 14 } else { 6 }),
        tile_vectors: if n.size > width { 2 } else { 1 },
        lanes: width as u32,
    };
    if let Some(transpose) = product.streamed_transpose(whole) {
        return transpose.can_compute().then_some(transpose);
    }
    // A quarter of a vector is worth a vector, but for features of a group: vectors across groups are full.
    let is_group_worth_it = || match is_in_groups {
        true => n.size >= LEAST_FEATURES && n.size.saturating_mul(terms) >= LEAST_WORK_OF_PLACE,
        false => product.row_count() >= LEAST_ROWS_OF_GROUP || terms >= LEAST_TERMS_OF_GROUP,
    };
    if n.size < width / 4 || has_groups && !is_group_worth_it() {
        return None;
    }
    if product.is_streamed() && !product.is_in_place_in_runtime_tiles() {
        product.form = Form::Streamed;
    } else {
        product.choose_instruction(machine);
    }
    ((product.form == Form::Streamed || product.row_count() > 1) && product.can_compute()).then_some(product)
}

/// Whether sums of products of two element types may be made in a type.
fn sums_in(element_type: ElementType, operands: [ElementType; 2]) -> bool {
    use ElementClass::{Signed, Unsigned};
    let is_integer = |element_type: ElementType| matches!(element_type.class(), Signed | Unsigned);
    operands.into_iter().all(|operand| match element_type {
        ElementType::F32 => operand.is_float() && operand.bit_width() <= 32,
        ElementType::F64 => operand == ElementType::F64,
        integer if is_integer(integer) && integer.bit_width() >= 32 => {
            is_integer(operand) && operand.bit_width() <= integer.bit_width()
        }
        _ => false,
    })
}

/// Distances of neighbours in a packed block of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedA {
    column: i64,
    row: i64,
}

impl PackedA {
    /// Whether the rows of a tile are neighbours, as they are in memory; else the elements of a row are.
    fn has_columns(self) -> bool {
        self.row == 1
    }

    /// Where a row that begins a tile begins, or how much room so many rows take. Tiles do not begin a power of two apart:
    /// they would compete for places in the cache.
    fn room(self, product: &MatMul) -> i64 {
        if self.has_columns() { product.block_k() + 2 } else { self.row }
    }
}

/// Rows of the register tile: as many as registers hold, somewhat fewer if that leaves no rest, or the few rows divide evenly.
fn tile_rows(rows: i64, most: i64) -> i64 {
    let least = LEAST_TILE_ROWS.max(most / 2 + 1);
    let even = parts(rows, parts(rows, most));
    (least..=most).rev().find(|tile| rows % tile == 0).unwrap_or(even).min(rows)
}

/// The least common multiple of two numbers.
fn least_common_multiple(a: i64, b: i64) -> i64 {
    (1..=b).map(|times| a * times).find(|multiple| multiple % b == 0).unwrap_or(a * b)
}

/// How many parts of `part` elements `size` elements make, the last one perhaps smaller.
fn parts(size: i64, part: i64) -> i64 {
    (size + part - 1) / part.max(1)
}

impl MatMul {
    fn panel(&self) -> i64 {
        self.tile_vectors * i64::from(self.lanes)
    }

    /// Takes steps of several elements, where an instruction does and they are in memory, or else the runtime's tiles.
    fn choose_instruction(&mut self, machine: Machine) {
        let is_in_memory = !self.computes(Operand::A) && !self.computes(Operand::B);
        if let Some((depth, in_matrices)) = self.dot_products(machine).filter(|_| is_in_memory) {
            let Axis { size, a, b, .. } = self.k;
            self.k = Axis { size: size / depth, a: a * depth, b: b * depth, c: 0 };
            self.depth = depth;
            self.in_matrices = in_matrices;
            if in_matrices {
                self.longest_k = self.longest_k.min(matrices::BLOCK_K);
            }
        }
        self.in_runtime = self.finds_runtime_tiles(machine);
    }

    /// How many elements of each operand an instruction for dot products of these types multiplies in a lane, at most.
    fn dot_length(&self) -> Option<i64> {
        let is_byte = |operand: ElementType| matches!(operand, ElementType::S8 | ElementType::U8);
        match (self.element_type, self.operand_types) {
            (ElementType::S32, [a, b]) if is_byte(a) && is_byte(b) => Some(4),
            (ElementType::F32, [ElementType::BF16, ElementType::BF16]) => Some(2),
            _ => None,
        }
    }

    /// How many elements the machine's instruction for dot products multiplies in a lane, if there is one that can take the
    /// operands as they lie, and whether it is one of a matrix unit.
    fn dot_products(&self, machine: Machine) -> Option<(i64, bool)> {
        let length = self.dot_length()?;
        let (in_vectors, in_matrices) = match self.element_type {
            // Vectors of bytes are multiplied as unsigned by signed ones.
            ElementType::S32 => {
                (machine.byte_dot_products && self.operand_types[1] == ElementType::S8, machine.byte_matrices)
            }
            _ => (machine.bf16_dot_products, machine.bf16_matrices),
        };
        let in_matrices = in_matrices && self.has_lanes_of_matrices();
        let are_neighbours = self.k.a == 1 && (self.k.b == 1 || self.n.b == 1);
        let divides = |length: i64| self.k.size % length == 0;
        if !are_neighbours {
            None
        } else if (in_vectors || in_matrices) && divides(length) {
            Some((length, in_matrices))
        } else {
            let as_words = machine.word_dot_products && self.element_type == ElementType::S32;
            (as_words && divides(WORDS)).then_some((WORDS, false))
        }
    }

    /// Whether a step takes bytes as words, integers of 16 bits, two in a lane.
    fn is_of_words(&self) -> bool {
        self.element_type == ElementType::S32 && self.depth == WORDS
    }

    /// Whether a step takes four bytes in each lane of a vector as long as the runtime's tiles have, and there are many.
    fn is_of_bytes(&self) -> bool {
        self.element_type == ElementType::S32
            && self.depth > WORDS
            && !self.in_matrices
            && self.lanes == BYTE_LANES
            && self.k.size >= LEAST_STEPS_OF_BYTES
    }

    /// Whether a vector has as many lanes as a matrix has columns.
    fn has_lanes_of_matrices(&self) -> bool {
        i64::from(self.lanes) == matrices::SIDE
    }

    /// Rows of a register tile.
    fn tile_rows(&self) -> i64 {
        if self.in_matrices { self.m.size.min(2 * matrices::SIDE) } else { self.vector_rows }
    }

    /// Whether the dot products see the elements of A, which are signed, moved into the range of unsigned ones.
    fn is_moved(&self) -> bool {
        self.element_type == ElementType::S32
            && self.depth > WORDS
            && !self.in_matrices
            && self.operand_types[0] == ElementType::S8
    }

    /// Bytes of an element of an operand, in memory.
    fn operand_bytes(&self, operand: Operand) -> i64 {
        self.operand_types[operand as usize].byte_width() as i64
    }

    /// Where in a panel, in elements, the sums of moved elements of A have their first row: behind its steps.
    fn surplus_row(&self) -> i64 {
        self.block_k() * self.panel()
    }

    /// Whether A comes from memory that is slow enough to ask for it before it is read.
    fn is_a_large(&self) -> bool {
        let elements = self.row_count().saturating_mul(self.k.size).saturating_mul(self.depth);
        self.is_large(Operand::A, elements)
    }

    /// The same of B.
    fn is_b_large(&self) -> bool {
        self.is_large(Operand::B, self.n.size.saturating_mul(self.k.size).saturating_mul(self.depth))
    }

    fn is_large(&self, operand: Operand, elements: i64) -> bool {
        let bytes = elements.saturating_mul(self.operand_bytes(operand));
        !self.computes(operand) && bytes >= LARGE
    }

    /// Whether tiles read B where it is: one that finds room in the first-level cache, or that few rows read once.
    fn reads_b_in_place(&self) -> bool {
        let has_few_rows = self.row_count() <= MOST_STREAMED_ROWS;
        // Vectors across lines cost less than to pack each B of a batch.
        let is_read_by_few = !self.batch.is_empty() && self.row_count() <= MOST_ROWS_ACROSS_LINES;
        self.n.b == 1
            && !self.computes(Operand::B)
            && (self.k.b % i64::from(self.lanes) == 0 || has_few_rows || is_read_by_few)
            && self.depth == 1
            && self.operand_types[1] == self.element_type
            && (self.is_b_small() || has_few_rows && self.row_count() >= LEAST_ROWS_IN_PLACE && self.rows.is_empty())
    }

    fn reads_small_b_in_place(&self) -> bool {
        self.reads_b_in_place() && self.is_b_small()
    }

    fn reads_large_b_in_place(&self) -> bool {
        self.reads_b_in_place() && !self.is_b_small()
    }

    fn is_b_small(&self) -> bool {
        let elements = self.n.size.saturating_mul(self.k.size).saturating_mul(positions(&self.contracted));
        elements.saturating_mul(self.element_type.byte_width() as i64) <= SMALL_B
    }

    /// Panels that share a walk over A.
    fn panels_per_group(&self) -> i64 {
        let row_bytes = self.panel() * self.element_type.byte_width() as i64;
        if self.reads_large_b_in_place() {
            // As long as each other.
            let panels = parts(self.n.size, self.panel());
            return parts(panels, parts(panels, STRIP_BYTES / row_bytes));
        }
        let least = match self.packing_of_a() {
            Some(packed) if packed.has_columns() => PANELS_OVER_PACKED_COLUMNS,
            _ => (GROUP_ROW_BYTES / row_bytes).clamp(1, PANELS_OVER_PACKED_COLUMNS),
        };
        let most = MOST_GROUP_ROW_BYTES / row_bytes;
        let widths = std::iter::successors(Some(least), |panels| Some(2 * panels)).take_while(|&panels| panels <= most);
        // Each group goes through A, and each part of the rows packs B.
        let moved = |panels: i64| {
            let groups = parts(self.n.size, self.panel() * panels);
            let row_parts = self.row_parts(groups);
            let tasks = positions(&self.batch) * groups * row_parts;
            (TASKS - tasks.min(TASKS), groups * self.row_count() + row_parts * self.n.size)
        };
        widths.min_by_key(|&panels| moved(panels)).unwrap_or(least)
    }

    /// Rows of a panel: its steps, and one for what moving the elements of A adds to the sums. It is always there, so that
    /// panels do not begin a power of two apart: they would compete for places in the cache.
    fn panel_rows(&self) -> i64 {
        self.block_k() + 1
    }

    /// Whether rows of A whose elements are neighbours lie so that those of two tiles compete for the same places in the cache.
    fn rows_compete(&self) -> bool {
        let row_bytes = self.m.a.unsigned_abs() * self.operand_types[0].byte_width() as u64;
        row_bytes.is_multiple_of(PAGE) && 2 * self.vector_rows > WAYS && self.k.size >= LEAST_PACKED_STEPS
    }

    /// How far ahead, in elements of A, tiles ask for lines while they go through their rows: those of the next tile if the
    /// first-level cache has room for two, else the next line of each row.
    fn distance_ahead(&self, tile: i64) -> Option<i64> {
        let are_rows = match self.packing_of_a() {
            Some(packed) => !packed.has_columns(),
            None => self.k.a == self.depth && !self.rows_compete(),
        };
        let tile_bytes = self.tile_rows() * self.block_k() * self.element_type.byte_width() as i64;
        let element_bytes = match self.packing_of_a() {
            Some(_) => self.element_type.byte_width() as i64,
            None => self.operand_bytes(Operand::A),
        };
        let distance = if 2 * tile_bytes <= BYTES_OF_TILES { tile } else { LINE_BYTES / element_bytes };
        (are_rows && self.k.size >= LEAST_PACKED_STEPS).then_some(distance)
    }

    /// How a block of A is packed before its tiles are computed, if several panels use it and it pays, or it is computed.
    fn packing_of_a(&self) -> Option<PackedA> {
        let is_computed = self.computes(Operand::A);
        let is_of_words = self.is_of_words();
        // Elements of another type are converted by vectors as they are packed, else one by one.
        let is_converted = self.operand_types[0] != self.element_type;
        let is_read_once = self.n.size <= self.panel() && !is_computed && !is_converted;
        // Bytes that many panels use are moved once.
        let is_moved = self.is_of_bytes() && self.is_moved() && self.n.size >= LEAST_PANELS_MOVED * self.panel();
        if self.depth > 1 && !is_of_words && !is_moved || !self.rows.is_empty() || is_read_once {
            return None;
        }
        let distance = self.k.a.unsigned_abs() * self.operand_types[0].byte_width() as u64;
        let compete = self.rows_compete();
        if self.k.a == self.depth && (is_converted || compete || is_computed) {
            // Rows that are no power of two apart do not compete for places in the cache.
            let lanes = i64::from(self.lanes);
            return Some(PackedA { column: 1, row: (parts(self.block_k(), lanes) + 1) * lanes });
        }
        let is_far = (distance >= LEAST_PACKED_DISTANCE || is_converted) && self.k.size >= LEAST_PACKED_STEPS;
        (self.m.a == 1 && self.depth == 1 && (is_far || is_computed))
            .then_some(PackedA { column: self.vector_rows, row: 1 })
    }

    /// Rows of a block of A: of those that a task has as many in each.
    fn block_rows(&self) -> i64 {
        let tile = self.tile_rows();
        if self.in_matrices {
            return matrices::BLOCK_M / tile * tile;
        }
        let rows = self.slice_rows().unwrap_or_else(|| self.task_rows());
        // Where little is summed, a C that no cache holds is most of what is moved: its rows are written as far as the columns go.
        let elements = positions(&self.batch).saturating_mul(self.row_count()).saturating_mul(self.n.size);
        let is_large = elements.saturating_mul(self.element_type.byte_width() as i64) >= LARGE_ARRAY_BYTES;
        let most = if is_large && self.k.size <= FEW_TERMS { tile } else { BLOCK_M };
        let blocks = if rows <= MOST_M { 1 } else { parts(rows, most) };
        parts(parts(rows, blocks), tile) * tile
    }

    /// Number of blocks of all contracted positions.
    fn blocks_of_all(&self) -> i64 {
        match self.contracted_in_tiles() {
            Some(_) => 1,
            None => self.blocks() * positions(&self.contracted),
        }
    }

    /// Number of blocks of contracted positions.
    fn blocks(&self) -> i64 {
        parts(self.k.size, self.block_k())
    }

    /// Contracted positions in a block: pairs of whole vectors, if there are several blocks, so that only the last one has a
    /// rest, also where the positions are columns of another product.
    fn block_k(&self) -> i64 {
        let longest = if self.reads_large_b_in_place() { self.longest_k.min(BLOCK_K_IN_PLACE) } else { self.longest_k };
        let length = parts(self.k.size, parts(self.k.size, longest));
        let pair = 2 * i64::from(self.lanes);
        if length == self.k.size { length } else { parts(length, pair) * pair }
    }

    /// Whether the rows are so few that one pass over B is best, and B can be read so.
    fn is_streamed(&self) -> bool {
        let is_read_by_row = self.n.b == 1;
        let is_read_by_column = self.k.b == 1
            && self.k.size >= i64::from(self.lanes)
            && (self.k.a == 1 || self.contracted.is_empty() && self.row_count() * self.k.size <= MOST_COPIED);
        // Long sums of rows that do not fill half a vector stay in registers.
        let is_worth_registers =
            self.row_count() > 1 && 2 * self.n.size < i64::from(self.lanes) && self.k.size >= LONG_SUM;
        self.row_count() <= MOST_STREAMED_ROWS && (is_read_by_row && !is_worth_registers || is_read_by_column)
    }

    /// The transpose of the product with vectors of `lanes`, in which A takes the place of B, if there are so few columns
    /// that one pass over A is best.
    fn streamed_transpose(&self, lanes: i64) -> Option<MatMul> {
        let swap = |axis: Axis| Axis { a: axis.b, b: axis.a, ..axis };
        let all = |axes: &[Axis]| axes.iter().copied().map(swap).collect();
        let ([type_of_a, type_of_b], [a, b], [first_a, first_b, first_c]) =
            (self.operand_types, self.operands, self.first);
        let row_bytes = self.k.size * type_of_a.byte_width() as i64;
        let has_few = (2..=MOST_STREAMED_COLUMNS).contains(&self.n.size) && self.row_count() > MOST_STREAMED_ROWS;
        if !has_few || row_bytes < LEAST_STREAMED_BYTES || !self.rows.is_empty() || self.m.a == 1 {
            return None;
        }
        let transpose = MatMul {
            form: Form::Streamed,
            operand_types: [type_of_b, type_of_a],
            operands: [b, a],
            first: [first_b, first_a, first_c],
            batch: all(&self.batch),
            m: swap(self.n),
            n: swap(self.m),
            contracted: all(&self.contracted),
            k: swap(self.k),
            lanes: lanes as u32,
            ..self.clone()
        };
        transpose.is_streamed().then_some(transpose)
    }

    fn groups(&self) -> i64 {
        parts(self.n.size, self.panel() * self.panels_per_group())
    }

    /// Parts that the rows must be split into to give enough tasks with so many groups of panels.
    fn wanted_parts(&self, groups: i64) -> i64 {
        parts(TASKS, positions(&self.batch) * groups)
    }

    /// Positions of the outer rows that one task computes.
    fn task_positions(&self) -> i64 {
        let all = positions(&self.rows);
        parts(all, self.wanted_parts(self.groups()).min(all))
    }

    /// Parts that the rows are split into where there are so many groups of panels.
    fn row_parts(&self, groups: i64) -> i64 {
        let all = positions(&self.rows);
        let wanted = self.wanted_parts(groups);
        // Each part of the rows packs B for itself.
        let least_rows = if self.reads_b_in_place() { BLOCK_M / 2 } else { 2 * BLOCK_M };
        if all > 1 { wanted.min(all) } else { wanted.min(self.m.size / least_rows).max(1) }
    }

    /// Rows `m` that one task computes: all of them, unless there is nothing else to split.
    fn task_rows(&self) -> i64 {
        let row_parts = self.row_parts(self.groups());
        if positions(&self.rows) > 1 || row_parts == 1 {
            return self.m.size;
        }
        // Whole tiles of all instructions: the number of tasks is known before it is known which ones there are.
        let tile = match self.dot_length() {
            Some(_) if self.has_lanes_of_matrices() => least_common_multiple(self.vector_rows, 2 * matrices::SIDE),
            _ => self.vector_rows,
        };
        parts(parts(self.m.size, row_parts), tile) * tile
    }

    /// Rows of which a task computes all columns where an earlier run has packed B, if these rows are enough to go through B for: A is
    /// then walked, or packed, once and not by each group.
    fn slice_rows(&self) -> Option<i64> {
        let tile = self.tile_rows();
        let rows = parts(parts(self.m.size, self.tasks()), tile) * tile;
        let is_walked_often = self.packable_input().is_some() && self.rows.is_empty() && self.groups() > 1;
        (is_walked_often && rows >= BLOCK_M && self.k.size >= LONG_SUM).then_some(rows)
    }

    fn position_tasks(&self) -> i64 {
        parts(positions(&self.rows), self.task_positions())
    }

    fn row_tasks(&self) -> i64 {
        parts(self.m.size, self.task_rows())
    }

    /// Number of independent tasks.
    pub fn tasks(&self) -> i64 {
        let each = match self.form {
            Form::Tiled => self.groups() * self.position_tasks() * self.row_tasks(),
            Form::Streamed => self.strips(),
        };
        positions(&self.batch) * each
    }

    /// Lanes of its vectors.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Multiplications of the whole product.
    pub fn cost(&self) -> i64 {
        let axes = [&self.batch[..], &self.rows, &self.contracted, &[self.m, self.n, self.k]];
        axes.into_iter().flatten().fold(1i64, |product, axis| product.saturating_mul(axis.size))
    }
}
