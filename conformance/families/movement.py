"""Operations that only move elements: broadcast, reshape, transpose, slice, pad, concatenate, …"""
import numpy as np

from cases import Case, program, shape
from values import ALL, FEW, distinct, every_value


def one_operand(op, element_type, what, sizes, operand, attributes="", layout=None, parameter=None, **more):
    result = shape(element_type, sizes, layout)
    text = program(f"{result} {op}(p0){attributes}", [parameter or operand])
    return Case(op, element_type, what, text, [operand], **more)


def listed(values):
    return "{" + ",".join(map(str, values)) + "}"


# operation -> [(what, operand sizes, result sizes, attributes)]: the first in every type, the others in a few.
SHAPES = {
    "broadcast": [
        ("rows", (3,), (2, 3), ", dimensions={1}"),
        ("scalar", (), (2, 5), ", dimensions={}"),
        ("columns", (3,), (3, 4), ", dimensions={0}"),
        ("apart", (2, 3), (2, 4, 3, 1), ", dimensions={0,2}"),
        ("same", (2, 3), (2, 3), ", dimensions={0,1}"),
        ("empty", (0,), (4, 0), ", dimensions={1}"),
        ("to empty", (3,), (0, 3), ", dimensions={1}"),
        ("long", (7,), (5, 7, 33), ", dimensions={1}"),
    ],
    "reshape": [
        ("split", (6, 4), (2, 3, 2, 2), ""), ("merge", (2, 3, 4), (24,), ""), ("scalar", (1, 1), (), ""),
        ("from scalar", (), (1, 1, 1), ""), ("empty", (2, 0, 3), (0, 5), ""), ("across", (4, 6), (3, 8), ""),
    ],
    "transpose": [
        ("matrix", (3, 5), (5, 3), ", dimensions={1,0}"), ("rank 3", (2, 3, 4), (4, 2, 3), ", dimensions={2,0,1}"),
        ("rank 5", (2, 1, 3, 2, 2), (2, 3, 2, 1, 2), ", dimensions={4,2,0,1,3}"), ("scalar", (), (), ", dimensions={}"),
        ("identity", (2, 3), (2, 3), ", dimensions={0,1}"), ("empty", (0, 3), (3, 0), ", dimensions={1,0}"),
        ("large", (37, 65), (65, 37), ", dimensions={1,0}"),
    ],
    "reverse": [
        ("both", (3, 5), (3, 5), ", dimensions={0,1}"), ("last", (2, 7), (2, 7), ", dimensions={1}"),
        ("first of rank 3", (4, 1, 3), (4, 1, 3), ", dimensions={0}"), ("none", (3,), (3,), ", dimensions={}"),
        ("empty", (0,), (0,), ", dimensions={0}"), ("scalar", (), (), ", dimensions={}"),
    ],
    "slice": [
        ("strided", (7, 9), (3, 4), ", slice={[1:7:2], [0:8:2]}"), ("middle", (5,), (2,), ", slice={[2:4]}"),
        ("whole", (3, 4), (3, 4), ", slice={[0:3], [0:4]}"), ("empty", (5,), (0,), ", slice={[3:3]}"),
        ("long stride", (9,), (2,), ", slice={[0:9:5]}"), ("scalar", (), (), ", slice={}"),
        ("rank 4", (2, 3, 4, 5), (1, 3, 2, 2), ", slice={[1:2], [0:3], [1:4:2], [0:5:3]}"),
    ],
    "copy": [("same", (3, 5), (3, 5), ""), ("scalar", (), (), ""), ("empty", (0, 2), (0, 2), "")],
}

PADS = [
    ("interior", (3, 2), (6, 6), "1_0_1x2_1_1"), ("edges", (3,), (6,), "1_2"), ("negative", (5, 4), (3, 5), "-1_-1x2_-1"),
    ("negative with interior", (4,), (5,), "-1_-1_1"), ("of empty", (0,), (3,), "1_2"), ("to empty", (2,), (0,), "-1_-1"),
    ("none", (2, 3), (2, 3), "0_0x0_0"), ("rank 3", (2, 3, 2), (2, 5, 5), "0_0x1_1x1_1_1"),
]

CONCATENATIONS = [
    ("rows", [(2, 3), (1, 3)], 0), ("columns", [(2, 1), (2, 2), (2, 4)], 1), ("one", [(4,)], 0),
    ("with empty", [(2,), (0,), (3,)], 0), ("all empty", [(0, 2), (0, 2)], 0), ("rank 4", [(2, 1, 3, 2), (2, 4, 3, 2)], 1),
    ("many", [(2, 3)] * 9, 1),
]

LAYOUTS = [("column major", (4, 5), (0, 1)), ("rank 3", (2, 3, 4), (1, 2, 0)), ("rank 4", (2, 3, 2, 2), (0, 2, 1, 3))]


def cases():
    for op, table in SHAPES.items():
        for position, (what, sizes, result, attributes) in enumerate(table):
            for element_type in ALL if position == 0 else FEW if position == 1 else ["f32"]:
                yield one_operand(op, element_type, what, result, distinct(element_type, sizes), attributes)
    for what, sizes, layout in LAYOUTS:
        operand = distinct("f32", sizes)
        parameter = shape("f32", sizes, layout)
        yield one_operand("copy", "f32", f"from {what}", sizes, operand, parameter=parameter)
        yield one_operand("copy", "f32", f"to {what}", sizes, operand, layout=layout)
        yield one_operand("transpose", "f32", f"from {what}", sizes[::-1], operand, f", dimensions={listed(range(len(sizes))[::-1])}", parameter=parameter)
        yield one_operand("reshape", "f32", f"from {what}", (int(np.prod(sizes)),), operand, parameter=parameter)
        yield one_operand("reverse", "f32", f"in {what}", sizes, operand, ", dimensions={0}", layout=layout, parameter=parameter)

    for position, (what, sizes, result, padding) in enumerate(PADS):
        for element_type in ALL if position == 0 else FEW if position == 1 else ["f32"]:
            inputs = [distinct(element_type, sizes), distinct(element_type, (3,))[-1:].reshape(())]
            text = program(f"{shape(element_type, result)} pad(p0, p1), padding={padding}", inputs)
            yield Case("pad", element_type, what, text, inputs)

    for position, (what, parts, along) in enumerate(CONCATENATIONS):
        for element_type in ALL if position == 0 else FEW if position == 1 else ["f32"]:
            inputs = [distinct(element_type, sizes) for sizes in parts]
            result = list(parts[0])
            result[along] = sum(sizes[along] for sizes in parts)
            names = ", ".join(f"p{number}" for number in range(len(inputs)))
            text = program(f"{shape(element_type, result)} concatenate({names}), dimensions={{{along}}}", inputs)
            # XLA:CPU aborts on elements of two bits.
            source = ((lambda *parts, along=along: np.concatenate(parts, along)), "document") if element_type in ("s2", "u2") else ()
            yield Case("concatenate", element_type, what, text, inputs, *source)

    for element_type in ALL:
        if element_type == "pred":
            continue
        for sizes, along in (((5,), 0), ((2, 3), 1), ((3, 2, 2), 0)):
            text = program(f"{shape(element_type, sizes)} iota(), iota_dimension={along}", [])
            # Signs, zeros and numbers beyond the type differ: XLA:CPU has the rule of convert from integers.
            yield Case("iota", element_type, f"along {along} of {list(sizes)}", text, [])
    yield Case("iota", "s32", "empty", program("s32[0,3] iota(), iota_dimension=1", []), [])
    yield Case("iota", "f32", "long", program("f32[1000] iota(), iota_dimension=0", []), [])

    for element_type in ALL:
        values = "{1, 0, 1}" if element_type != "pred" else "{true, false, true}"
        if element_type in ("c64", "c128"):
            values = "{(1, -2), (0, 0), (inf, nan)}"
        elif element_type == "f8e8m0fnu":
            values = "{1, 2, 4}"
        yield Case("constant", element_type, "vector", program(f"{element_type}[3] constant({values})", []), [])
    yield Case("constant", "f32", "special values", program("f32[2,3] constant({{nan, inf, -inf}, {-0.0, 1e-3, 3.4e38}})", []), [])
    yield Case("constant", "s32", "empty", program("s32[0] constant({})", []), [])
    yield Case("constant", "bf16", "scalar", program("bf16[] constant(3.1415926)", []), [])

    for element_type in FEW:
        operand = distinct(element_type, (2, 3, 4))
        yield one_operand("bitcast", element_type, "to another shape", (6, 4), operand,
                          expected=lambda x: x.reshape(6, 4), source="document")
    # Layouts other than row-major: the memory is what stays.
    operand = distinct("f32", (4, 6))
    for what, sizes, parameter, layout, function in (
        ("of a transposed matrix", (6, 4), (0, 1), (1, 0), lambda x: x.T.copy()),
        ("to a transposed matrix", (6, 4), (1, 0), (0, 1), lambda x: x.reshape(4, 6).T.copy()),
        ("between layouts of rank 3", (2, 3, 4), (0, 1), (1, 2, 0), lambda x: x.T.reshape(2, 4, 3).transpose(0, 2, 1).copy()),
    ):
        yield one_operand("bitcast", "f32", what, sizes, operand, parameter=shape("f32", (4, 6), parameter), layout=layout, expected=function, source="document")
    operand = distinct("u8", (3, 8))
    yield Case("bitcast", "u8", "to u32", program("u32[6] bitcast(p0)", [operand]), [operand], lambda x: x.reshape(-1).view(np.uint32), "document")
    operand = distinct("s32", (3,))
    yield Case("bitcast", "s32", "to s16", program("s16[2,3] bitcast(p0)", [operand]), [operand], lambda x: x.view(np.int16).reshape(2, 3), "document")
