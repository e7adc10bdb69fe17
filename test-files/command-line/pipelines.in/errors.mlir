func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{negate}}
  %0 = hlo.negate %x : (tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %y : tensor<2xf32> // expected-error {{use of undeclared SSA value name}}
}
// -----
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
