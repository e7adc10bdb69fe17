module attributes {halo.pipeline = "builtin.module(func.func(hlo-fuse),hlo-assign-buffers)",
                   halo.target = ["x86_64-pc-linux-gnu", "x86-64-v3", ""]} {
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = hlo.negate %x : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
