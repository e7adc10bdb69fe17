//! Every elementwise operation on every element type, as a single element and in vectors, against the evaluator.
//!
//! A case is one operation on given element types. Its code maps a whole array of special values and random bits;
//! operations that hlo verifies must have code, and the results must be the evaluator's: equal where the operation is
//! exact, within a few units in the last place where it is not.

mod cases;
mod combiners;
mod compiled;
mod values;

use evaluator::{Environment, evaluate_instruction};
use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::ArrayShape;
use lowering_affine::scalar;

/// Elements of each operand; a multiple of every vector length.
const COUNT: usize = 4096;

/// Compares all cases of one element type with the evaluator.
fn check(element_type: ElementType) {
    let cases = cases::cases(element_type);
    let programs = compiled::Compiled::new(&cases);
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let operands: Vec<Literal> = case
            .operands
            .iter()
            .enumerate()
            .map(|(position, &operand)| {
                let shape = ArrayShape::new(operand, [COUNT as i64]);
                let bytes = values::operand_bytes(operand, position, COUNT);
                Literal::Array(ArrayLiteral::from_bytes(shape, &bytes).expect("the bytes of the shape"))
            })
            .collect();
        let expected = evaluate_instruction(None, &case.instruction(COUNT), &operands, &mut Environment::new());
        let expected = match expected {
            Ok(expected) => expected,
            Err(_) if scalar::refusal(case.kind, case.result).is_some() => continue,
            Err(error) => panic!("{case}: {error}"),
        };
        let expected = expected.as_array().expect("an array");
        for lanes in compiled::LANES {
            let Some(found) = programs.run(number, case, lanes, &operands) else {
                failures.push(format!("{case}: no code"));
                break;
            };
            let mut wrong = 0;
            for element in 0..COUNT {
                let width = case.result.byte_width();
                let bytes = element * width..(element + 1) * width;
                let (expected, found) = (&expected.bytes()[bytes.clone()], &found[bytes]);
                if !values::agree(case, &operands, element, expected, found) {
                    wrong += 1;
                    if wrong <= 3 {
                        let operands: Vec<String> = operands
                            .iter()
                            .map(|operand| values::show(operand.as_array().expect("an array"), element))
                            .collect();
                        failures.push(format!(
                            "{case}, lanes {lanes:?}, operands ({}): expected {}, found {}",
                            operands.join(", "),
                            values::show_bytes(case.result, expected),
                            values::show_bytes(case.result, found),
                        ));
                    }
                }
            }
            if wrong > 3 {
                failures.push(format!("{case}, lanes {lanes:?}: {wrong} of {COUNT} elements differ"));
            }
        }
    }
    println!("{element_type}: {} cases, {} failures", cases.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

macro_rules! types {
    ($($name:ident = $element_type:ident;)*) => {
        $(
            #[test]
            fn $name() {
                check(ElementType::$element_type);
            }
        )*

        #[test]
        fn every_element_type_has_a_test() {
            let tested = [$(ElementType::$element_type),*];
            assert!(ElementType::all().all(|element_type| tested.contains(&element_type)));
        }
    };
}

types! {
    pred = Pred;
    s2 = S2;
    s4 = S4;
    s8 = S8;
    s16 = S16;
    s32 = S32;
    s64 = S64;
    u2 = U2;
    u4 = U4;
    u8 = U8;
    u16 = U16;
    u32 = U32;
    u64 = U64;
    f4e2m1fn = F4E2M1FN;
    f8e3m4 = F8E3M4;
    f8e4m3 = F8E4M3;
    f8e4m3fn = F8E4M3FN;
    f8e4m3b11fnuz = F8E4M3B11FNUZ;
    f8e4m3fnuz = F8E4M3FNUZ;
    f8e5m2 = F8E5M2;
    f8e5m2fnuz = F8E5M2FNUZ;
    f8e8m0fnu = F8E8M0FNU;
    bf16 = BF16;
    f16 = F16;
    f32 = F32;
    f64 = F64;
    c64 = C64;
    c128 = C128;
}
