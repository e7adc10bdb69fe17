//! Polynomials of many constants, on processors whose instructions can or cannot repeat a number from memory.

use std::fmt::Write;

use lowering_llvm::code::generate;
use lowering_llvm::{Emit, Target};
use melior::ir::Module;

use crate::upstream_context;

/// The code of a loop that computes a polynomial of so many constants.
fn code_of_polynomial(constants: usize, cpu: &str, features: &str) -> String {
    let mut steps = String::new();
    for number in 0..constants {
        let before = if number == 0 { "%x".to_string() } else { format!("%y{}", number - 1) };
        let _ = writeln!(
            steps,
            "%c{number} = llvm.mlir.constant(dense<{}.5> : vector<16xf32>) : vector<16xf32>\n\
             %y{number} = llvm.intr.fma({before}, %x, %c{number}) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>",
            number + 3
        );
    }
    let text = format!(
        "llvm.func @f(%p: !llvm.ptr) {{\n%zero = llvm.mlir.constant(0 : i64) : i64\n%one = llvm.mlir.constant(1 : i64) : i64\n\
         %end = llvm.mlir.constant(1000 : i64) : i64\nllvm.br ^loop(%zero : i64)\n^loop(%i: i64):\n\
         %q = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, vector<16xf32>\n\
         %x = llvm.load %q {{alignment = 4 : i64}} : !llvm.ptr -> vector<16xf32>\n{steps}\
         llvm.store %y{}, %q {{alignment = 4 : i64}} : vector<16xf32>, !llvm.ptr\n%j = llvm.add %i, %one : i64\n\
         %more = llvm.icmp \"slt\" %j, %end : i64\nllvm.cond_br %more, ^loop(%j : i64), ^end\n^end:\nllvm.return\n}}",
        constants - 1
    );
    let context = upstream_context();
    let module = Module::parse(&context, &text).expect("a module");
    let target = Target::cpu("x86_64-unknown-linux-gnu", cpu, features);
    let code = generate(module.as_operation(), &target, Emit::Assembly, true).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(code.bytes).expect("text")
}

#[test]
fn many_constants_are_operands_in_memory() {
    let code = code_of_polynomial(24, "znver3", "+avx2,+fma");
    assert!(!code.contains("vbroadcastss"), "{code}");
    assert!(code.lines().any(|line| line.contains("vfmadd") && line.contains("(%rip)")), "{code}");
}

#[test]
fn few_constants_stay_in_registers() {
    assert!(code_of_polynomial(6, "znver3", "+avx2,+fma").contains("vbroadcastss"));
}

#[test]
fn instructions_that_repeat_a_number_need_no_vector() {
    let code = code_of_polynomial(40, "x86-64-v4", "+avx2,+fma,+avx512f,+avx512dq");
    assert!(!code.contains("constant"), "{code}");
}
