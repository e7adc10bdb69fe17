// The dialect reads back as it is printed.
// test: dialect
func.func @window_sum(%array: memref<8xf32>, %i: index, %zero: f32) -> f32 {
  %sum = indexing.loop #indexing.map<"(d0)[s0] -> (d0 + s0 - 1), domain: d0 in [0, 7], s0 in [0, 2], d0 + s0 in [1, 8]">(%i) inits(%zero : f32) -> f32 {
  ^bb0(%s0: index, %place: index, %partial: f32):
    %element = memref.load %array[%place] : memref<8xf32>
    %next = arith.addf %partial, %element : f32
    indexing.yield %next : f32
  }
  return %sum : f32
}
// -----
// Maps become arithmetic, loops over range variables become nests with tests of the constraints.
// test: lower
// check: func.func @window_sum
// check: scf.for
// check: arith.cmpi sge
// check: arith.cmpi sle
// check: scf.if
// check: memref.load
// check: arith.addf
// check-not: indexing.
func.func @window_sum(%array: memref<8xf32>, %i: index, %zero: f32) -> f32 {
  %sum = indexing.loop #indexing.map<"(d0)[s0] -> (d0 + s0 - 1), domain: d0 in [0, 7], s0 in [0, 2], d0 + s0 in [1, 8]">(%i) inits(%zero : f32) -> f32 {
  ^bb0(%s0: index, %place: index, %partial: f32):
    %element = memref.load %array[%place] : memref<8xf32>
    %next = arith.addf %partial, %element : f32
    indexing.yield %next : f32
  }
  return %sum : f32
}
