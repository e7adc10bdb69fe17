//! Values as HLO text shows them, shortened when long.

use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::literal_text::write_literal;
use hlo::scalar::{self, Scalar};
use hlo::shape::ArrayShape;

/// Arrays of at most so many elements are shown whole.
const WHOLE_LIMIT: i64 = 64;
/// Elements shown at each end of a shortened dimension.
const EDGE: i64 = 3;

/// One element as HLO text.
pub fn scalar_text(element_type: ElementType, value: Scalar) -> String {
    let mut text = String::new();
    if let Ok(mut array) = ArrayLiteral::zeros(ArrayShape::new(element_type, [])) {
        scalar::store(element_type, array.bytes_mut(), 0, value);
        write_literal(&mut text, &Literal::Array(array));
    }
    text
}

/// A value as an HLO literal behind its shape; of each long dimension only the ends are shown.
pub fn shortened(literal: &Literal) -> String {
    match literal {
        Literal::Array(array) => {
            let mut text = format!("{} ", ArrayShape { layout: None, ..array.shape().clone() });
            if array.shape().element_count() <= WHOLE_LIMIT {
                write_literal(&mut text, literal);
            } else {
                write_shortened(&mut text, array);
            }
            // The sign of NaN means nothing, and correct programs differ in it.
            text.replace("-nan", "nan")
        }
        Literal::Tuple(elements) => {
            format!("({})", elements.iter().map(shortened).collect::<Vec<_>>().join(", "))
        }
        Literal::Token => "token[]".into(),
        Literal::Elided(shape) => format!("{shape} {{...}}"),
    }
}

fn write_shortened(text: &mut String, array: &ArrayLiteral) {
    let shape = array.shape();
    let element =
        |index: i64| scalar_text(shape.element_type, scalar::load(shape.element_type, array.bytes(), index as usize));
    let strides = shape.strides();
    // Positions still to be shown of each open dimension; an explicit stack, since ranks are not bounded.
    let mut index = vec![0i64; shape.rank()];
    let mut dimension = 0;
    text.push('{');
    loop {
        let size = shape.dimensions[dimension];
        if index[dimension] >= size {
            text.push('}');
            index[dimension] = 0;
            if dimension == 0 {
                return;
            }
            dimension -= 1;
            index[dimension] += 1;
            continue;
        }
        if index[dimension] > 0 {
            text.push_str(", ");
        }
        if size > 2 * EDGE && index[dimension] == EDGE {
            text.push_str("..., ");
            index[dimension] = size - EDGE;
        }
        if dimension + 1 < shape.rank() {
            text.push('{');
            dimension += 1;
        } else {
            let offset: i64 = index.iter().zip(&strides).map(|(position, stride)| position * stride).sum();
            text.push_str(&element(offset));
            index[dimension] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(dimensions: impl Into<Vec<i64>>, values: &[f32]) -> String {
        shortened(&Literal::Array(ArrayLiteral::from_slice(dimensions, values).unwrap()))
    }

    #[test]
    fn short_arrays_are_whole() {
        assert_eq!(text_of([], &[1.5]), "f32[] 1.5");
        assert_eq!(text_of([2, 2], &[1.0, -2.0, 0.1, f32::INFINITY]), "f32[2,2] { { 1, -2 }, { 0.1, inf } }");
        assert_eq!(text_of([0, 2], &[]), "f32[0,2] { }");
        assert_eq!(text_of([2, 0], &[]), "f32[2,0] { {}, {} }");
        assert_eq!(text_of([1], &[1e30]), "f32[1] {1e+30}");
    }

    #[test]
    fn long_dimensions_show_their_ends() {
        let values: Vec<f32> = (0..100).map(|value| value as f32).collect();
        assert_eq!(text_of([100], &values), "f32[100] {0, 1, 2, ..., 97, 98, 99}");
        assert_eq!(text_of([50, 2], &values), "f32[50,2] {{0, 1}, {2, 3}, {4, 5}, ..., {94, 95}, {96, 97}, {98, 99}}");
    }
}
