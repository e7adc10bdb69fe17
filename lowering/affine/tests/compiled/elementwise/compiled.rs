//! The cases' code: for each case and vector length a function over whole arrays.

use std::convert::Infallible;
use std::mem::transmute;

use exec::Jit;
use hlo::element_type::ElementType;
use hlo::literal::{ALIGNMENT, AlignedBytes, Literal};
use lowering_affine::scalar::{self, RegisterValue};
use lowering_llvm::Target;
use melior::ir::TypeLike;
use mlir_ext::builder::{Machine, OpBuilder, Value};

use super::COUNT;
use super::cases::Case;
use crate::machine_code;

/// Lengths of vectors; `None` is a single element.
pub const LANES: [Option<u32>; 2] = [None, Some(8)];

/// Loaded code of some cases.
pub struct Compiled {
    jit: Jit,
    supported: Vec<bool>,
}

fn symbol(number: usize, lanes: Option<u32>) -> String {
    format!("case_{number}_{}", lanes.unwrap_or(0))
}

/// Compiles and loads the functions that are built.
pub fn load(fill: impl FnOnce(&OpBuilder<'_>)) -> Jit {
    let context = machine_code::context();
    let module = machine_code::build(&context, |builder| {
        builder.set_machine(Machine {
            scales_vectors: Target::host().vector_bits() == 512,
            vector_library_bits: exec::runtime::vector_math::widest_vector_bits(),
            ..Machine::default()
        });
        fill(builder);
    });
    machine_code::load(&module)
}

impl Compiled {
    /// Compiles the cases.
    pub fn new(cases: &[Case]) -> Self {
        let mut supported = vec![false; cases.len()];
        let jit = load(|builder| {
            for (number, case) in cases.iter().enumerate() {
                for lanes in LANES {
                    supported[number] = emit(builder, &symbol(number, lanes), case, lanes);
                }
            }
        });
        Compiled { jit, supported }
    }

    /// Runs a case on its operands; `None` when there is no code for it.
    pub fn run(&self, number: usize, case: &Case, lanes: Option<u32>, operands: &[Literal]) -> Option<AlignedBytes> {
        if !self.supported[number] {
            return None;
        }
        let function = self.jit.lookup(&symbol(number, lanes)).unwrap_or_else(|error| panic!("{error}"));
        let mut result = AlignedBytes::new(ALIGNMENT);
        result.resize(COUNT * case.result.byte_width(), 0xa5);
        let pointer = |position: usize| {
            operands.get(position).and_then(Literal::as_array).map_or(std::ptr::null(), |array| array.bytes().as_ptr())
        };
        // SAFETY: `emit` gives every function four pointers, of which it uses as many as the case has operands, and
        // the last; the arrays have `COUNT` elements.
        unsafe {
            let function: extern "C" fn(*const u8, *const u8, *const u8, *mut u8) = transmute(function);
            function(pointer(0), pointer(1), pointer(2), result.as_mut_ptr());
        }
        Some(result)
    }
}

/// Elements of the memory type for one element.
fn parts(element_type: ElementType) -> i64 {
    if element_type.is_complex() { 2 } else { 1 }
}

/// A function over arrays of `COUNT` elements: three operands, of which the case uses some, and the result.
fn emit(builder: &OpBuilder, name: &str, case: &Case, lanes: Option<u32>) -> bool {
    let memory = |element_type: ElementType| {
        builder.memref_type(&[COUNT as i64 * parts(element_type)], scalar::memory_type(builder, element_type))
    };
    let operand = |position: usize| memory(case.operands.get(position).copied().unwrap_or(ElementType::U8));
    let types = [operand(0), operand(1), operand(2), memory(case.result)];
    let mut is_supported = true;
    let Ok(()) = builder.function(name, &types, &[], &[], |builder, function| {
        let arrays = function.parameters();
        let step = builder.constant_index(i64::from(lanes.unwrap_or(1)));
        let (first, end) = (builder.constant_index(0), builder.constant_index(COUNT as i64));
        let Ok(_) = builder.for_loop(first, end, step, &[], |builder, index, _| {
            let position = |element_type: ElementType| match parts(element_type) {
                1 => index,
                parts => {
                    let parts = builder.constant_index(parts);
                    builder.muli(index, parts)
                }
            };
            let load = |number: usize| {
                let element_type = case.operands[number];
                let r#type = scalar::load_type(builder, element_type, lanes);
                let name = if r#type.is_vector() { "vector.load" } else { "memref.load" };
                let operands = [arrays[number], position(element_type)];
                let loaded: Value = builder.value(name, &operands, r#type, &[]);
                scalar::from_memory(builder, element_type, lanes, loaded)
            };
            let operands: Vec<RegisterValue> = (0..case.operands.len()).map(load).collect();
            match scalar::elementwise(builder, case.kind, &case.attributes, &operands, case.result) {
                Ok(result) => {
                    assert_eq!(result.element_type, case.result, "{case}");
                    let value = scalar::to_memory(builder, &result);
                    let name = if value.r#type().is_vector() { "vector.store" } else { "memref.store" };
                    builder.effect(name, &[value, arrays[3], position(case.result)], &[]);
                }
                Err(_) => is_supported = false,
            }
            Ok::<_, Infallible>(Vec::new())
        });
        builder.effect("func.return", &[], &[]);
        Ok::<_, Infallible>(())
    });
    is_supported
}
