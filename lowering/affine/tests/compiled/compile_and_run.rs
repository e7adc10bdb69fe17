//! From MLIR text to running code.

use exec::Jit;
use lowering_llvm::{
    LoweringOptions, Target,
    shards::{Shard, ShardOptions, compile_shards},
};
use std::mem::transmute;

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

fn load(texts: &[&str], symbols: &[exec::jit::Symbol]) -> Jit {
    let shards = texts.iter().map(|text| Shard::text(text)).collect();
    let options = ShardOptions { lowering: LoweringOptions { verify: true }, ..ShardOptions::default() };
    let compiled = compile_shards(shards, &Target::host(), &options).unwrap();
    for shard in &compiled {
        println!("{}", shard.timings);
    }
    let objects: Vec<_> = compiled.into_iter().map(|shard| shard.object).collect();
    // SAFETY: compiled for this CPU just now.
    unsafe { Jit::load(&objects, symbols) }.unwrap()
}

#[test]
fn loops_vectors_and_affine_maps_run() {
    let jit = load(&[KERNELS], &[]);
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

#[test]
fn shards_call_each_other_and_the_runtime() {
    let caller = "func.func private @double(i64) -> i64
        func.func private @rt_triple(i64) -> i64
        func.func @both(%x: i64) -> i64 {
          %0 = func.call @double(%x) : (i64) -> i64
          %1 = func.call @rt_triple(%0) : (i64) -> i64
          return %1 : i64
        }";
    let callee = "func.func @double(%x: i64) -> i64 {
          %0 = arith.addi %x, %x : i64
          return %0 : i64
        }";
    let jit = load(&[caller, callee], &[("rt_triple", triple as *const ())]);
    // SAFETY: the signature of `both`.
    let both: extern "C" fn(i64) -> i64 = unsafe { transmute(jit.lookup("both").unwrap()) };
    assert_eq!(both(7), 42);
}

#[test]
fn missing_symbols_are_named() {
    let text = "func.func private @nowhere_to_be_found(i64) -> i64
        func.func @f(%x: i64) -> i64 {
          %1 = func.call @nowhere_to_be_found(%x) : (i64) -> i64
          return %1 : i64
        }";
    let jit = load(&[text], &[]);
    let error = jit.lookup("f").unwrap_err().to_string();
    assert!(error.contains("nowhere_to_be_found"), "{error}");
    let error = jit.lookup("g").unwrap_err().to_string();
    assert!(error.contains("`g`"), "{error}");
}

#[test]
fn malformed_objects_are_refused() {
    // SAFETY: nothing is run.
    let error = unsafe { Jit::load(&[b"not an object"], &[]) };
    assert!(error.is_err() || error.unwrap().lookup("f").is_err());
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

#[test]
#[ignore = "a measurement, not a check"]
fn compile_time() {
    const KERNELS: usize = 200;
    let text: String = (0..KERNELS).map(kernel).collect();
    let halves = [(0..KERNELS / 2).map(kernel).collect::<String>(), (KERNELS / 2..KERNELS).map(kernel).collect()];
    for _ in 0..3 {
        for (name, shards) in [("one shard ", vec![&text]), ("two shards", halves.iter().collect())] {
            let start = std::time::Instant::now();
            let shards = shards.into_iter().map(|text| Shard::text(text)).collect();
            let compiled = compile_shards(shards, &Target::host(), &ShardOptions::default()).unwrap();
            let compile = start.elapsed();
            let mut timings = lowering_llvm::timing::Timings::default();
            compiled.iter().for_each(|shard| timings += shard.timings);
            let start = std::time::Instant::now();
            let objects: Vec<_> = compiled.into_iter().map(|shard| shard.object).collect();
            // SAFETY: compiled for this CPU just now.
            let jit = unsafe { Jit::load(&objects, exec::runtime::symbols()) }.unwrap();
            let loaded = start.elapsed();
            (0..KERNELS).for_each(|index| assert!(jit.lookup(&format!("kernel_{index}")).is_ok()));
            let looked_up = start.elapsed() - loaded;
            println!("{name}: wall {compile:.1?} + load {loaded:.1?} + look-ups {looked_up:.1?}; {timings}");
        }
    }
}
