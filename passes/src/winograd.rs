//! Convolutions with a window of 3 × 3 by Winograd's algorithm F(2×2, 3×3): 16 multiplications instead of 36 for four elements of
//! the result.
//!
//! The input is taken in tiles of 4 × 4 elements that overlap by two, the result in tiles of 2 × 2. Along one dimension the
//! result of a tile is `Aᵀ [(G g) ⊙ (Bᵀ d)]`, of the input `d` and the kernel `g`, and along both that of what the other one gives; what is multiplied is
//! summed over the features, which for each of the 16 positions of a tile is a product of matrices. The transforms are
//! sums, and halves of sums of the kernel (S. Winograd, Arithmetic complexity of computations, 1980; A. Lavin and S. Gray, Fast algorithms for
//! convolutional neural networks, 2016, section 4.1).

use hlo::attributes::SliceDimension;
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::shape::ArrayShape;
use indexing::ceil_div;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Elements along a tile of the result.
pub(crate) const RESULT_TILE: i64 = 2;

/// Elements along a window, and more of the input than of the result.
pub(crate) const WINDOW: i64 = 3;

/// Elements along a tile of the input.
const TILE: usize = 4;

/// Multiplications of each product of matrices from which on it is worth the code, and divided among threads.
const LEAST_PRODUCTS: i64 = 1 << 20;

/// Multiply-additions in the time in which an element is written or read, in caches.
const PRODUCTS_OF_ELEMENT: i64 = 4;

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Images.
    pub batch: i64,
    /// Elements of the result along the dimensions of space.
    pub space: [i64; 2],
    /// Features of the input.
    pub input_features: i64,
    /// Features of the result.
    pub output_features: i64,
}

impl Sizes {
    /// Tiles along the dimensions of space.
    fn tiles(&self) -> [i64; 2] {
        self.space.map(|size| ceil_div(size, RESULT_TILE))
    }

    /// Whether the transforms and the products take less than three quarters of the time of the direct products.
    pub(crate) fn is_worth_it(&self) -> bool {
        let Sizes { batch, space, input_features, output_features } = *self;
        let product = |factors: &[i64]| factors.iter().fold(1i64, |product, &factor| product.saturating_mul(factor));
        let [rows, columns] = self.tiles();
        let tiles = product(&[batch, rows, columns]);
        let positions = (TILE * TILE) as i64;
        let direct = product(&[batch, space[0], space[1], WINDOW * WINDOW, input_features, output_features]);
        let each = product(&[tiles, input_features, output_features]);
        let products = positions.saturating_mul(each);
        let of_arrays = tiles.saturating_mul(input_features.saturating_add(output_features));
        // Arrays are written and read, of the kernel more often: products pack it.
        let of_kernel = product(&[3, input_features, output_features]);
        let elements = of_arrays.saturating_mul(2).saturating_add(of_kernel);
        let moved = product(&[positions, elements, PRODUCTS_OF_ELEMENT]);
        each >= LEAST_PRODUCTS && products.saturating_add(moved) < direct / 4 * 3
    }
}

/// The convolution of an input `[batch, rows, columns, features]`, which is padded to as many rows and columns as whole tiles of the result
/// see, with a kernel `[3, 3, features of the input, features of the result]`; the result is in whole tiles.
pub(crate) fn convolution(
    builder: &mut GraphBuilder,
    input: InstructionId,
    kernel: InstructionId,
    sizes: Sizes,
) -> InstructionId {
    let [rows, columns] = sizes.tiles();
    let Sizes { batch, input_features, output_features, .. } = sizes;
    let tiles = batch * rows * columns;
    let of_input: [[InstructionId; TILE]; TILE] = square(|row, column| {
        let every_other = |start: i64, count: i64| SliceDimension {
            start,
            limit: start + (count - 1) * RESULT_TILE + 1,
            stride: RESULT_TILE,
        };
        builder.slice_along(input, &[(1, every_other(row, rows)), (2, every_other(column, columns))])
    });
    let of_kernel: [[InstructionId; WINDOW as usize]; WINDOW as usize] = square(|row, column| {
        let row = builder.slice(kernel, 0, row, row + 1);
        let element = builder.slice(row, 1, column, column + 1);
        builder.reshape(element, &[input_features, output_features])
    });
    let inputs = transform(of_input, &mut |own| input_transform(builder, own));
    let kernels = transform(of_kernel, &mut |own| kernel_transform(builder, own));
    let products = square(|row, column| {
        let [input, kernel] = [inputs[row as usize][column as usize], kernels[row as usize][column as usize]];
        let input = builder.reshape(input, &[tiles, input_features]);
        let shape = ArrayShape::new(builder.element_type(input), [tiles, output_features]);
        let attributes =
            DotAttributes { lhs_contracting_dims: &[1], rhs_contracting_dims: &[0], ..DotAttributes::new() };
        let product = builder.add(OpKind::Dot, shape, &[input, kernel], attributes);
        builder.reshape(product, &[batch, rows, columns, output_features])
    });
    let results: [[InstructionId; RESULT_TILE as usize]; RESULT_TILE as usize] =
        transform(products, &mut |own| result_transform(builder, own));
    let whole_rows = results.map(|row| {
        let row = row.map(|own| builder.reshape(own, &[batch, rows, 1, columns, 1, output_features]));
        builder.concatenate(&row, 4)
    });
    let whole = builder.concatenate(&whole_rows, 2);
    builder.reshape(whole, &[batch, rows * RESULT_TILE, columns * RESULT_TILE, output_features])
}

/// The elements of a square, of which each is made for its row and column.
fn square<const N: usize>(mut element: impl FnMut(i64, i64) -> InstructionId) -> [[InstructionId; N]; N] {
    std::array::from_fn(|row| std::array::from_fn(|column| element(row as i64, column as i64)))
}

/// A square of which each column is transformed, and then each row.
fn transform<const N: usize, const M: usize>(
    elements: [[InstructionId; N]; N],
    one: &mut dyn FnMut([InstructionId; N]) -> [InstructionId; M],
) -> [[InstructionId; M]; M] {
    let columns: [[InstructionId; M]; N] = std::array::from_fn(|column| one(elements.map(|row| row[column])));
    std::array::from_fn(|row| one(columns.map(|column| column[row])))
}

/// `Bᵀ d`.
fn input_transform(builder: &mut GraphBuilder, [a, b, c, d]: [InstructionId; TILE]) -> [InstructionId; TILE] {
    [(OpKind::Subtract, a, c), (OpKind::Add, b, c), (OpKind::Subtract, c, b), (OpKind::Subtract, b, d)]
        .map(|(kind, one, other)| builder.binary(kind, one, other))
}

/// `G g`.
fn kernel_transform(builder: &mut GraphBuilder, [a, b, c]: [InstructionId; WINDOW as usize]) -> [InstructionId; TILE] {
    let half = builder.filled(&builder.array(a), ConstantNumber::Float(0.5));
    let ends = builder.binary(OpKind::Add, a, c);
    let [ends, middle] = [ends, b].map(|own| builder.binary(OpKind::Multiply, own, half));
    [a, builder.binary(OpKind::Add, ends, middle), builder.binary(OpKind::Subtract, ends, middle), c]
}

/// `Aᵀ m`.
fn result_transform(
    builder: &mut GraphBuilder,
    [a, b, c, d]: [InstructionId; TILE],
) -> [InstructionId; RESULT_TILE as usize] {
    [(OpKind::Add, a, b, c), (OpKind::Subtract, b, c, d)].map(|(kind, one, two, three)| {
        let two = builder.binary(kind, one, two);
        builder.binary(kind, two, three)
    })
}
