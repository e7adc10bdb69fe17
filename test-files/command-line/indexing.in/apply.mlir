func.func @element(%i: index) -> (index, index) {
  %0:2 = indexing.apply #indexing.map<"(d0)->(d0 floordiv 8, d0 mod 8), domain: d0 in [0, 31]"> (%i) : index, index
  return %0#0, %0#1 : index, index
}
