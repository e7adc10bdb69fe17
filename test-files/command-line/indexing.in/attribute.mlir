func.func private @f() attributes {map = #indexing.map<"(d0)->(d0/8, d0%8), domain: d0 in [0, 31]">}
