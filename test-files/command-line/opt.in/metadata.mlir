#loc1 = loc("hlo":4:4)
#loc5 = loc("a"(#loc1))
module @metadata {
  func.func @main(%a: tensor<2xf32> loc("a"(#loc1))) -> tensor<2xf32> {
    %twice = hlo.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc(#loc7)
    return %twice : tensor<2xf32> loc(#loc4)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("hlo":5:9)
#loc3 = loc("model.py":3:0)
#loc4 = loc("main")
#loc6 = loc(fused<"{op_name=\22jit(f)/add\22 source_file=\22model.py\22 source_line=3}">[#loc2, #loc3])
#loc7 = loc("twice"(#loc6))
