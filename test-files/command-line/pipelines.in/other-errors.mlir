func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{another}}
  return %y : tensor<2xf32>
}
