//! Arrays of NumPy: an array or an error.
#![no_main]

use hlo::element_type::ElementType;
use hlo::shape::ArrayShape;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for element_type in [ElementType::F32, ElementType::Pred, ElementType::S4, ElementType::C64] {
        let _ = tools::npy::read_from(bytes, &ArrayShape::new(element_type, [2, 3]));
    }
});
