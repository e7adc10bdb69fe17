//! Literals: text to [`crate::literal::Literal`] and back.

mod number;
mod read;

pub(crate) use crate::literal_text::write_float;
pub use crate::literal_text::write_literal;
pub use read::parse_literal;
pub(crate) use read::read;

/// The number that a text is.
pub(crate) fn float(text: &str) -> Option<f64> {
    number::f64(text).ok()
}

#[cfg(test)]
mod tests {
    use crate::literal::Literal;
    use crate::shape::Shape;

    use super::*;
    use crate::text::error::Error;
    use crate::text::grammar::{self, Rule};
    use crate::text::scan::Cursor;
    use crate::text::source::SourceLines;

    fn shape(text: &str) -> Shape {
        let source = SourceLines::new(text);
        let rule = if text.starts_with('(') { Rule::tuple } else { Rule::array };
        let pair = grammar::read(rule, &mut Cursor::new(source)).expect("a shape");
        crate::text::shapes::shape(source, pair).expect("a shape")
    }

    fn parse(shape_text: &str, text: &str) -> Result<Literal, Error> {
        read(SourceLines::new(text), &shape(shape_text), text)
    }

    fn print(literal: &Literal) -> String {
        let mut out = String::new();
        write_literal(&mut out, literal);
        out
    }

    /// Reads and writes; the result must be the same text.
    fn round_trip(shape: &str, text: &str) {
        match parse(shape, text) {
            Ok(literal) => assert_eq!(print(&literal), text, "{shape}"),
            Err(error) => panic!("{}", error.render(shape, text)),
        }
    }

    #[test]
    fn xla_forms_survive() {
        for (shape, text) in [
            ("pred[]", "true"),
            ("pred[2,3]", "{ { 0, 1, 0 }, { 1, 0, 1 } }"),
            ("s32[]", "-42"),
            ("f32[0]", "{}"),
            ("f32[2,0]", "{ {}, {} }"),
            ("f32[2,0,4,3]", "{ { /*i0=0*/ }, { /*i0=1*/ } }"),
            ("f32[1,1]", "{ {4096} }"),
            (
                "f32[3,2,1,1]",
                "{ { /*i0=0*/ { /*i1=0*/ {-1} }, { /*i1=1*/ {4.1} } }, { /*i0=1*/ { /*i1=0*/ {2} }, \
                 { /*i1=1*/ {4.1} } }, { /*i0=2*/ { /*i1=0*/ {5} }, { /*i1=1*/ {4.4} } } }",
            ),
            ("f32[6]", "{nan, 7, nan, -1, inf, -inf}"),
            ("f32[2]", "{-nan, nan(0x1)}"),
            ("f8e4m3fn[3]", "{nan, 7, -nan}"),
            ("f8e4m3b11fnuz[2]", "{-nan, 7}"),
            ("f8e5m2[4]", "{inf, -inf, nan, 5.7e+04}"),
            ("f8e8m0fnu[2]", "{0.5, 2}"),
            ("f4e2m1fn[3]", "{6, -0.5, 1.5}"),
            ("f16[2]", "{-65504, 0.33325}"),
            ("bf16[3]", "{-3.39e+38, 3.39e+38, 0.3008}"),
            ("f32[5]", "{-3.40282e+38, 0.0078125, 1e-05, 0.000123, 2.13909504e+09}"),
            ("f64[2]", "{-1.79769e+308, 0.1}"),
            ("f64[]", "0.10000000000000001"),
            ("(f32[2,1], f32[2])", "( { {1}, {2} }, {2, 42} )"),
            ("()", "()"),
            ("c64[2]", "{(1, 2), (-inf, nan)}"),
            ("c128[]", "(-1.79769e+308, 1.79769e+308)"),
            ("u4[2]", "{0, 15}"),
            ("s4[2]", "{-8, 7}"),
            ("s2[2]", "{-2, 1}"),
            ("s64[1]", "{-9223372036854775808}"),
            ("u64[1]", "{18446744073709551615}"),
            ("f32[2,3]", "{...}"),
        ] {
            if shape == "f64[]" {
                // 0.1 has fewer digits than the text, which says the same value.
                assert_eq!(print(&parse(shape, text).expect("a number")), "0.1");
            } else {
                round_trip(shape, text);
            }
        }
    }

    #[test]
    fn other_spellings_are_read() {
        for (shape, text, printed) in [
            ("pred[2]", "{true, false}", "{1, 0}"),
            ("pred[]", "1", "true"),
            ("f32[2]", "{ 0x1.8p1 ,/* a comment */ .5 }", "{3, 0.5}"),
            ("s8[]", "-0x80", "-128"),
            ("(f32[2], (s32[], pred[]))", "(f32[2] {1,2}, (s32[] 3, true))", "( {1, 2}, ( 3, true ) )"),
            ("(f32[2], s32[])", "({...}, 1)", "( {...}, 1 )"),
            ("(f32[2], s32[3])", "{...}", "( {...}, {...} )"),
            ("f32[2]", "{1e+1,\n2E-1}", "{10, 0.2}"),
            ("f32[2]", "{1, 2,}", "{1, 2}"),
            ("(f32[2], f32[2])", "(f32[2]{0} {1,2}, f32[2] {3,4})", "( {1, 2}, {3, 4} )"),
        ] {
            match parse(shape, text) {
                Ok(literal) => assert_eq!(print(&literal), printed, "{shape} {text}"),
                Err(error) => panic!("{}", error.render(shape, text)),
            }
        }
    }

    #[test]
    fn every_narrow_float_survives() {
        use crate::element_type::ElementType;
        use crate::literal::ArrayLiteral;
        use crate::shape::ArrayShape;
        for element_type in ElementType::all().filter(|element| element.is_float() && element.bit_width() <= 16) {
            let patterns = 1usize << element_type.bit_width();
            let bytes: Vec<u8> = (0..patterns)
                .flat_map(|bits| (bits as u16).to_ne_bytes()[..element_type.byte_width()].to_vec())
                .collect();
            let array_shape = ArrayShape::new(element_type, [patterns as i64]);
            let literal = Literal::Array(ArrayLiteral::from_bytes(array_shape.clone(), &bytes).expect("data"));
            let text = print(&literal);
            let again = match read(SourceLines::new(&text), &Shape::Array(array_shape), &text) {
                Ok(again) => again,
                Err(error) => panic!("{}", error.render(element_type.name(), &text)),
            };
            assert_eq!(again, literal, "{element_type}");
        }
    }

    #[test]
    fn floats_survive() {
        use crate::literal::ArrayLiteral;
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state
        };
        let wide: Vec<f64> = (0..20_000).map(|_| f64::from_bits(next())).collect();
        let single: Vec<f32> = (0..20_000).map(|_| f32::from_bits((next() >> 32) as u32)).collect();
        for literal in [
            Literal::Array(ArrayLiteral::from_slice([20_000], &wide).expect("data")),
            Literal::Array(ArrayLiteral::from_slice([20_000], &single).expect("data")),
        ] {
            let text = print(&literal);
            let again = read(SourceLines::new(&text), &literal.shape(), &text).expect("what was written");
            // NaN is not equal to itself, but its bytes are.
            assert_eq!(again.as_array().map(|array| array.bytes()), literal.as_array().map(|array| array.bytes()));
        }
    }

    #[test]
    fn misfits_are_errors_at_their_place() {
        for (shape, text, column, message) in [
            ("f32[2]", "{1, {2}}", 5, "expected a number"),
            ("f32[2,3]", "{1, 2, 3, 4, 5, 6}", 2, "expected `{`"),
            ("f32[2,3,1]", "{{{1},{3},{5},{7}}}", 14, "dimension 1 needs 3 elements, got more"),
            ("f32[3]", "{1, 2}", 6, "dimension 0 needs 3 elements, got 2"),
            ("f32[2]", "{1, 2, 3}", 6, "dimension 0 needs 2 elements, got more"),
            ("u4[]", "16", 1, "16 is out of the range of u4"),
            ("s32[]", "1.5", 1, "`1.5` is not a number of type s32"),
            ("f32[]", "", 1, "expected a number"),
            ("f32[]", "1 2", 3, "expected the end of this literal"),
            ("f32[1000000000000]", "{1}", 3, "needs 1000000000000 elements, got 1"),
            ("c64[]", "1", 1, "expected `(`"),
            ("(f32[], s32[])", "(1)", 3, "expected `,`"),
            ("(f32[2], s32[])", "(s32[2] {1,2}, 1)", 2, "found the shape s32[2]"),
            ("pred[]", "yes", 1, "not a number of type pred"),
        ] {
            match parse(shape, text) {
                Ok(literal) => panic!("{shape} {text} gives {literal:?}"),
                Err(error) => {
                    assert!(error.to_string().contains(message), "{shape} {text}: {error}");
                    assert_eq!(error.location().column, column, "{shape} {text}: {error}");
                }
            }
        }
    }
}
