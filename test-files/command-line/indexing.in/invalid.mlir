func.func private @f() attributes {map = #indexing.map<"(d0) -> (d0 + d1)">}
