//! From MLIR text to running code.

use exec::Jit;
use lowering_llvm::{CodeGenerationOptions, LoweringOptions, Target, cpu, generate_code};
use mlir_ext::operations::parse_module;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::NonNull;

use super::machine_code::{compile, context};

/// One function of each dialect that loops are made of.
const KERNELS: &str = "
#tail = affine_map<(d0) -> (d0 * 16 + 3)>
func.func @axpy(%x: memref<64xf32> {llvm.noalias, llvm.align = 64 : i64}, %y: memref<64xf32> {llvm.noalias}, %a: f32) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %splat = vector.broadcast %a : f32 to vector<8xf32>
  scf.for %i = %c0 to %c64 step %c8 {
    %xv = vector.load %x[%i] : memref<64xf32>, vector<8xf32>
    %yv = vector.load %y[%i] : memref<64xf32>, vector<8xf32>
    %r = math.fma %splat, %xv, %yv : vector<8xf32>
    vector.store %r, %y[%i] : memref<64xf32>, vector<8xf32>
  }
  return
}
func.func @sum(%x: memref<4x24xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c24 = arith.constant 24 : index
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %v = scf.for %i = %c0 to %c4 step %c1 iter_args(%outer = %zero) -> vector<8xf32> {
    %w = scf.for %j = %c0 to %c24 step %c8 iter_args(%acc = %outer) -> vector<8xf32> {
      %xv = vector.load %x[%i, %j] : memref<4x24xf32>, vector<8xf32>
      %s = arith.addf %acc, %xv : vector<8xf32>
      scf.yield %s : vector<8xf32>
    }
    scf.yield %w : vector<8xf32>
  }
  %r = vector.reduction <add>, %v fastmath<reassoc> : vector<8xf32> into f32
  return %r : f32
}
func.func @tail(%x: memref<64xf32>, %y: memref<64xf32>, %n: index) {
  %at = affine.apply #tail(%n)
  %mask = arith.constant dense<[true, true, true, true, true, false, false, false]> : vector<8xi1>
  %pad = arith.constant dense<1.0> : vector<8xf32>
  %v = vector.maskedload %x[%at], %mask, %pad : memref<64xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
  %e = math.exp %v : vector<8xf32>
  %reversed = vector.shuffle %e, %e [7, 6, 5, 4, 3, 2, 1, 0] : vector<8xf32>, vector<8xf32>
  vector.store %reversed, %y[%at] : memref<64xf32>, vector<8xf32>
  return
}
";

/// Loads a module that is compiled in shards of so many operations.
fn load_in_shards(text: &str, operations_per_shard: usize, symbols: &[exec::jit::Symbol]) -> (Jit, usize) {
    let context = context();
    let module = parse_module(&context, text).unwrap();
    let code = compile(&module, operations_per_shard);
    println!("{}", code.timings);
    // SAFETY: compiled for this CPU just now.
    (unsafe { Jit::load(&code.objects, symbols) }.unwrap(), code.objects.len())
}

fn load(text: &str, symbols: &[exec::jit::Symbol]) -> Jit {
    load_in_shards(text, usize::MAX, symbols).0
}

#[test]
fn loops_vectors_and_affine_maps_run() {
    let jit = load(KERNELS, &[]);
    let x: Vec<f32> = (0..96).map(|i| i as f32).collect();
    let mut y = vec![1f32; 96];
    // SAFETY: the signatures are those of the functions above.
    unsafe {
        let axpy: unsafe extern "C" fn(*const f32, *mut f32, f32) = transmute(jit.lookup("axpy").unwrap());
        axpy(x.as_ptr(), y.as_mut_ptr(), 2.0);
        let sum: unsafe extern "C" fn(*const f32) -> f32 = transmute(jit.lookup("sum").unwrap());
        assert_eq!(sum(x.as_ptr()), (0..96).sum::<i32>() as f32);
        assert!(y[..64].iter().zip(&x).all(|(y, x)| *y == 2.0 * x + 1.0));
        assert_eq!(y[64], 1.0);

        let tail: unsafe extern "C" fn(*const f32, *mut f32, i64) = transmute(jit.lookup("tail").unwrap());
        let zeros = [0f32; 64];
        tail(zeros.as_ptr(), y.as_mut_ptr(), 1);
        let e = 1f32.exp();
        let expected = [e, e, e, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert!(y[19..27].iter().zip(expected).all(|(y, e)| (y - e).abs() < 1e-6), "{:?}", &y[19..27]);
    }
}

extern "C" fn triple(x: i64) -> i64 {
    3 * x
}

/// An entry that only calls, functions that call each other and share a table, and a function whose address is taken.
const CALLS: &str = "
memref.global \"private\" constant @table : memref<4xi64> = dense<[10, 20, 30, 40]>
func.func private @rt_triple(i64) -> i64
func.func private @rt_apply(!llvm.ptr, i64) -> i64
func.func private @double(%x: i64) -> i64 {
  %0 = arith.addi %x, %x : i64
  return %0 : i64
}
func.func private @sum_to(%n: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %first = arith.constant 0 : index
  %one = arith.constant 1 : index
  %table = memref.get_global @table : memref<4xi64>
  %end = arith.index_cast %n : i64 to index
  %sum = scf.for %i = %first to %end step %one iter_args(%sum = %zero) -> i64 {
    %element = memref.load %table[%i] : memref<4xi64>
    %next = arith.addi %sum, %element : i64
    scf.yield %next : i64
  }
  %twice = func.call @double(%sum) : (i64) -> i64
  return %twice : i64
}
func.func private @last_times(%x: memref<1xi64>) {
  %zero = arith.constant 0 : index
  %three = arith.constant 3 : index
  %table = memref.get_global @table : memref<4xi64>
  %last = memref.load %table[%three] : memref<4xi64>
  %value = memref.load %x[%zero] : memref<1xi64>
  %product = arith.muli %last, %value : i64
  %tripled = func.call @rt_triple(%product) : (i64) -> i64
  memref.store %tripled, %x[%zero] : memref<1xi64>
  return
}
func.func @both(%n: i64) -> i64 {
  %function = func.constant @double : (i64) -> i64
  %double = builtin.unrealized_conversion_cast %function : (i64) -> i64 to !llvm.ptr
  %0 = func.call @sum_to(%n) : (i64) -> i64
  %1 = func.call @rt_apply(%double, %0) : (!llvm.ptr, i64) -> i64
  return %1 : i64
}
func.func @entry(%x: memref<1xi64>) {
  call @last_times(%x) : (memref<1xi64>) -> ()
  return
}";

unsafe extern "C" fn apply(function: extern "C" fn(i64) -> i64, x: i64) -> i64 {
    function(x)
}

#[test]
fn shards_call_each_other_and_the_runtime() {
    // All in one, one a function (the entry only calls), and some together.
    for (operations_per_shard, expected) in [(usize::MAX, 1..=1), (1, 5..=5), (20, 2..=4)] {
        let symbols = [("rt_triple", triple as *const ()), ("rt_apply", apply as *const ())];
        let (jit, objects) = load_in_shards(CALLS, operations_per_shard, &symbols);
        assert!(expected.contains(&objects), "{objects} objects, {operations_per_shard} operations each");
        // SAFETY: the signatures of `both` and `entry`.
        let (both, entry): (extern "C" fn(i64) -> i64, unsafe extern "C" fn(*mut i64)) = unsafe {
            (
                transmute::<NonNull<c_void>, extern "C" fn(i64) -> i64>(jit.lookup("both").unwrap()),
                transmute::<NonNull<c_void>, unsafe extern "C" fn(*mut i64)>(jit.lookup("entry").unwrap()),
            )
        };
        assert_eq!(both(3), 240);
        let mut x = 2;
        // SAFETY: it takes the address of one number.
        unsafe { entry(&raw mut x) };
        assert_eq!(x, 240);
        assert!(jit.lookup("double").is_err() || objects > 1, "private functions are seen where shards need them");
    }
}

#[test]
fn objects_do_not_depend_on_threads() {
    let text: String = (0..24).map(kernel).collect();
    let objects = |threads: usize| {
        let context = context();
        let module = parse_module(&context, &text).unwrap();
        cpu::lower_to_llvm_dialect(&module, LoweringOptions { verify: true }).unwrap();
        let options = CodeGenerationOptions { threads, operations_per_shard: 100, ..Default::default() };
        let code = generate_code(&module, &Target::host(), options).unwrap();
        (code.objects, code.threads)
    };
    let (serial, one) = objects(1);
    assert!(serial.len() >= 8 && one == 1, "{} objects, {one} threads", serial.len());
    for threads in [2, 8] {
        assert!(objects(threads) == (serial.clone(), threads), "{threads} threads");
    }
    assert!(objects(0).0 == serial);
}

#[test]
fn missing_symbols_are_named() {
    let text = "func.func private @nowhere_to_be_found(i64) -> i64
        func.func @f(%x: i64) -> i64 {
          %1 = func.call @nowhere_to_be_found(%x) : (i64) -> i64
          return %1 : i64
        }";
    let context = context();
    let objects = compile(&parse_module(&context, text).unwrap(), usize::MAX).objects;
    // SAFETY: nothing is run.
    let error = unsafe { Jit::load(&objects, &[]) }.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("nowhere_to_be_found"), "{error}");
    let error = load("func.func @f() { return }", &[]).lookup("g").unwrap_err().to_string();
    assert!(error.contains("`g`"), "{error}");
}

#[test]
fn malformed_objects_are_refused() {
    // SAFETY: nothing is run.
    let error = unsafe { Jit::load(&[b"not an object"], &[]) };
    assert!(error.is_err());
}

/// A two-deep loop of ten vector operations.
fn kernel(index: usize) -> String {
    let memory = "memref<128x256xf32>";
    format!(
        "func.func @kernel_{index}(%x: {memory} {{llvm.noalias}}, %y: {memory} {{llvm.noalias}}, %z: {memory} {{llvm.noalias}}) {{
  %c = arith.constant dense<1.5> : vector<8xf32>
  affine.for %i = 0 to 128 {{
    affine.for %j = 0 to 256 step 8 {{
      %a = vector.load %x[%i, %j] : {memory}, vector<8xf32>
      %b = vector.load %y[%i, %j] : {memory}, vector<8xf32>
      %0 = arith.mulf %a, %b : vector<8xf32>
      %1 = arith.addf %0, %c : vector<8xf32>
      %2 = math.fma %1, %a, %b : vector<8xf32>
      %3 = math.sqrt %2 : vector<8xf32>
      %4 = arith.divf %3, %1 : vector<8xf32>
      %5 = arith.subf %4, %a : vector<8xf32>
      %6 = math.absf %5 : vector<8xf32>
      vector.store %6, %z[%i, %j] : {memory}, vector<8xf32>
    }}
  }}
  return
}}"
    )
}
