"""Operations at indices known when the program runs: dynamic-slice, dynamic-update-slice, gather, scatter."""
import numpy as np

from cases import Case, combiner, computation, program, shape
from values import ALL, COMPLEX, FEW, INTEGER, distinct, random
from reduction import few_values, initial

DYNAMIC = [
    ("inside", (5, 7), (2, 3), (1, 2)), ("beyond the end", (5, 7), (2, 3), (4, 100)), ("before the start", (5, 7), (2, 3), (-1, -100)),
    ("whole", (3, 2), (3, 2), (2, 1)), ("empty", (5,), (0,), (2,)), ("scalar", (), (), ()), ("rank 4", (2, 3, 4, 3), (1, 3, 2, 1), (1, 5, 1, 2)),
    ("row", (6, 33), (1, 33), (3, 0)), ("extreme", (5,), (2,), (-(2**31),)), ("other extreme", (5,), (2,), (2**31 - 1,)),
]

# what, operand, indices, values of indices, attributes, result
GATHERS = [
    ("rows", (5, 4), [2, 0, 4, 4, -1, 7], (6,), "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}", (6, 4)),
    ("elements", (5, 6), [0, 5, 4, 0, 9, -3], (3, 2), "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}", (3,)),
    ("windows", (6, 5), [1, 0, 3, 3], (2, 2), "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}", (2, 2, 3)),
    ("permuted index", (4, 6), [5, 1, 2, 3], (2, 2), "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,1}", (2,)),
    ("columns", (3, 7), [6, 0, 2], (3,), "offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}", (3, 3)),
    ("index vector first", (5, 6), [1, 2, 3, 4], (2, 2), "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1}", (2,)),
    ("batches of indices", (8, 3), [0, 7, 3, 3, 1, 2], (2, 3, 1), "offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,2}", (2, 3, 2)),
    ("offset before batch", (6, 5), [4, 1], (2, 1), "offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={3,2}", (3, 2, 2)),
    ("batching dimensions", (3, 6), [5, 0, 2, 2, 1, 9], (3, 2, 1), "offset_dims={2}, collapsed_slice_dims={}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,2}", (3, 2, 2)),
    ("sorted", (9,), [0, 1, 1, 8], (4,), "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}, indices_are_sorted=true", (4,)),
    ("no index", (4, 3), [], (0,), "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}", (0, 3)),
    ("one slice", (4, 3, 2), [1], (1,), "offset_dims={0,1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,3,2}", (3, 2)),
]

# what, operand, indices, sizes of indices, updates, attributes
SCATTERS = [
    ("rows", (5, 4), [2, 0, 2, -1, 5], (5, 1), (5, 4), "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
    ("elements", (4, 5), [0, 4, 3, 1, 0, 4, 4, 0], (4, 2), (4,), "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1"),
    ("windows", (6, 5), [1, 1, 4, 2, 5, 0], (3, 2), (3, 2, 3), "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1"),
    ("permuted index", (4, 6), [5, 1, 2, 3], (2, 2), (2,), "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=1"),
    ("window first", (3, 6), [4, 0, 1], (3,), (2, 3), "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1"),
    ("batching dimensions", (3, 6), [5, 0, 2, 2, 1, 9], (3, 2, 1), (3, 2), "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2"),
    ("no update", (4,), [], (0, 1), (0,), "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
    ("unique and sorted", (7,), [1, 3, 6], (3, 1), (3,), "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, indices_are_sorted=true, unique_indices=true"),
    ("one update", (3, 4), [1, 2], (2,), (), "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=0"),
]


def cases():
    for position, (what, sizes, slice_sizes, starts) in enumerate(DYNAMIC):
        for element_type in ALL if position == 0 else FEW if position == 1 else ["f32"]:
            for index_type in ("s32", "u8", "s64") if (position, element_type) == (0, "f32") else ("s32",):
                indices = [np.array(start).astype({"s32": np.int32, "u8": np.uint8, "s64": np.int64}[index_type]) for start in starts]
                operand = distinct(element_type, sizes)
                names = "".join(f", p{number + 1}" for number in range(len(starts)))
                listed = ",".join(map(str, slice_sizes))
                suffix = "" if index_type == "s32" else f" by {index_type}"
                text = program(f"{shape(element_type, slice_sizes)} dynamic-slice(p0{names}), dynamic_slice_sizes={{{listed}}}", [operand, *indices])
                # XLA:CPU cannot read a slice without sizes.
                source = (lambda operand: operand, "document") if not sizes else ()
                yield Case("dynamic-slice", element_type, what + suffix, text, [operand, *indices], *source)
                update = random(element_type, slice_sizes, what)
                names = "".join(f", p{number + 2}" for number in range(len(starts)))
                text = program(f"{shape(element_type, sizes)} dynamic-update-slice(p0, p1{names})", [operand, update, *indices])
                yield Case("dynamic-update-slice", element_type, what + suffix, text, [operand, update, *indices])

    for position, (what, sizes, indices, index_sizes, attributes, result) in enumerate(GATHERS):
        for element_type in ALL if position == 0 else FEW if position == 1 else ["f32"]:
            for index_type in (np.int32, np.int64, np.uint8, np.int8) if (position, element_type) == (3, "f32") else (np.int32,):
                inputs = [distinct(element_type, sizes), np.array(indices, np.int64).astype(index_type).reshape(index_sizes)]
                suffix = "" if index_type is np.int32 else f" by {np.dtype(index_type)}"
                text = program(f"{shape(element_type, result)} gather(p0, p1), {attributes}", inputs)
                yield Case("gather", element_type, what + suffix, text, inputs)

    for position, (what, sizes, indices, index_sizes, updates, attributes) in enumerate(SCATTERS):
        for element_type in ALL if position == 0 else FEW if position == 1 else ["f32"]:
            if position == 0 and element_type == "f8e8m0fnu":
                continue
            op = "or" if element_type == "pred" else "add"
            operand = few_values(element_type, sizes, what)
            inputs = [operand, np.array(indices, np.int32).reshape(index_sizes), few_values(element_type, updates, what, "updates")]
            text = program(f"{shape(element_type, sizes)} scatter(p0, p1, p2), {attributes}, to_apply=f", inputs, combiner(element_type, op))
            yield Case("scatter", element_type, f"{op} {what}", text, inputs)
    replace = computation("f", ["f8e8m0fnu[]", "f8e8m0fnu[]"], "f8e8m0fnu[] maximum(p0, p1)")
    what, sizes, indices, index_sizes, updates, attributes = SCATTERS[0]
    inputs = [few_values("f8e8m0fnu", sizes, 1), np.array(indices, np.int32).reshape(index_sizes), few_values("f8e8m0fnu", updates, 2)]
    yield Case("scatter", "f8e8m0fnu", "maximum rows", program(f"{shape('f8e8m0fnu', sizes)} scatter(p0, p1, p2), {attributes}, to_apply=f", inputs, replace), inputs)
    replace = computation("f", ["f32[]", "f32[]"], ["f32[] copy(p1)"])
    inputs = [distinct("f32", (7,)), np.array([[1], [3], [6]], np.int32), random("f32", (3,), "replace")]
    text = program("f32[7] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f", inputs, replace)
    yield Case("scatter", "f32", "replace", text, inputs)
    both = computation("f", ["f32[]", "s32[]"] * 2, ["a = f32[] add(p0, p2)", "b = s32[] maximum(p1, p3)", "(f32[], s32[]) tuple(a, b)"])
    inputs = [few_values("f32", (5,), 1), few_values("s32", (5,), 2), np.array([[1], [4], [1]], np.int32), few_values("f32", (3,), 3), few_values("s32", (3,), 4)]
    text = program("(f32[5], s32[5]) scatter(p0, p1, p2, p3, p4), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f", inputs, both)
    yield Case("scatter", "f32", "two operands", text, inputs)
