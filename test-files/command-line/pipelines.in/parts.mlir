func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = hlo.negate %x : (tensor<2xf32>) -> tensor<2xf32>
  %1 = hlo.negate %x : (tensor<2xf32>) -> tensor<2xf32>
  %2 = hlo.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
// -----
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
