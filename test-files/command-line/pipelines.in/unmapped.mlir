module @add {
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> attributes {hlo.arena_size = 0 : i64} {
    %0 = hlo.fusion %arg0 {hlo.slices = #hlo.slices<[output 0, 0 : 8]>, kind = "kLoop"} : (tensor<2xf32>) -> tensor<2xf32> {
    ^bb0(%arg1: tensor<2xf32>):
      %1 = hlo.negate %arg1 : (tensor<2xf32>) -> tensor<2xf32>
      hlo.return %1 : tensor<2xf32>
    }
    return {hlo.parameter_slices = [#hlo.slices<[parameter 0, 0 : 8]>]} %0 : tensor<2xf32>
  }
}
