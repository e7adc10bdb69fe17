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
// -----
// A value of one computation is unknown in another, also when that one does not parse.
func.func @main(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = hlo.conditional %p, %x, %x : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
    %1 = hlo.negate %y : (tensor<2xf32>) -> tensor<2xf32>
    hlo.return %1 : tensor<2xf32>
  }, {
  ^bb0(%y: tensor<2xf32>):
    hlo.return %y : tensor<2xf32>
  ^bb0(%z: tensor<2xf32>): // expected-error {{redefinition of block '^bb0'}}
  }
}
// -----
func.func @main(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = hlo.conditional %p, %x, %x : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
    hlo.return %y : tensor<2xf32> // expected-error {{use of undeclared SSA value name}}
  }, {
  ^bb0(%y: tensor<2xf32>):
    hlo.return %y : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}
