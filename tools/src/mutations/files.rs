//! Mutated arrays and model descriptions: reading them gives a value or an error, never a crash.

use std::panic::{self, AssertUnwindSafe};

use fastrand::Rng;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

use crate::compare::Tolerance;
use crate::model_spec::ModelSpec;
use crate::npy;

const DESCRIPTION: &str = r#"{
    "parameters": [{"name": "[0]", "shape": [2, 3], "dtype": "f32", "fill": {"lo": -1.0, "hi": 1.0}}],
    "outputs": [{"shape": [4], "dtype": "f32", "samples": [[0, 1.0], [3, 2.0]], "rms": 1.5, "mean": 1.0}]
}"#;

/// Reads a mutated `.npy` file and a mutated description.
///
/// # Errors
/// For a panic.
pub fn check(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let file = mutated_bytes(&array_file(&mut rng), &mut rng);
    let description = String::from_utf8_lossy(&mutated_bytes(DESCRIPTION.as_bytes(), &mut rng)).into_owned();
    let read = AssertUnwindSafe(|| {
        for element_type in [ElementType::F32, ElementType::Pred, ElementType::S4, ElementType::C64] {
            let _ = npy::read_from(&file[..], &ArrayShape::new(element_type, [2, 3]));
        }
        if let Ok(spec) = serde_json::from_str::<ModelSpec>(&description) {
            let parameter = ArrayShape::new(ElementType::F32, [2, 3]);
            let _ = spec.inputs(&[&parameter], 0);
            if let Ok(output) = ArrayLiteral::from_slice([4], &[1f32, 2.0, f32::NAN, 4.0]) {
                let _ = spec.check(true, &[&output], Tolerance::default_for, &[]);
            }
        }
    });
    panic::catch_unwind(read).map_err(|payload| {
        format!("file mutant {seed}: panic: {}\n{file:?}\n{description}", super::text_of_panic(&*payload))
    })
}

fn array_file(rng: &mut Rng) -> Vec<u8> {
    let order = if rng.bool() { "True" } else { "False" };
    let descr = rng.choice(["<f4", ">f4", "|b1", "<c8", "|u1", "<V4"]).unwrap_or("<f4");
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2, 3), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend([7; 48]);
    bytes
}

/// Bytes with a few of them changed.
pub(super) fn mutated_bytes(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let place = rng.usize(..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match rng.u8(0..5) {
            0 if !bytes.is_empty() => bytes[place] = rng.u8(..),
            1 if !bytes.is_empty() => {
                bytes.remove(place);
            }
            2 => bytes.insert(place, rng.choice(*b"0123456789-,.()[]{}'\"eE<>|").unwrap_or(b'9')),
            3 => bytes.truncate(place.max(1)),
            _ => {
                let copy: Vec<u8> = bytes[place..].iter().take(rng.usize(1..9)).copied().collect();
                bytes.splice(place..place, copy);
            }
        }
    }
    bytes
}
