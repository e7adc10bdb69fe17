"""Operations on each element by itself: unary and binary arithmetic, logic, functions."""
import numpy as np

from cases import Case, program, shape
from reference import numpy_type
from values import ALL, COMPLEX, FLOAT, INTEGER, PARTS, PREDICATE, SIGNED, WIDE_FLOAT, denormal, grid, pairs, random, special

UNARY = {
    "abs": SIGNED + FLOAT + COMPLEX,
    "negate": INTEGER + FLOAT + COMPLEX,
    "sign": SIGNED + FLOAT + COMPLEX,
    "not": PREDICATE + INTEGER,
    "popcnt": INTEGER,
    "count-leading-zeros": INTEGER,
    "real": FLOAT + COMPLEX,
    "imag": FLOAT + COMPLEX,
    "is-finite": FLOAT,
    **{op: FLOAT for op in ("ceil", "floor", "round-nearest-afz", "round-nearest-even", "cbrt", "erf")},
    **{op: FLOAT + COMPLEX for op in (
        "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sqrt",
        "cosine", "sine", "tan", "tanh",
        "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh",
    )},
}

BINARY = {
    "add": ALL, "maximum": ALL, "minimum": ALL, "multiply": ALL,
    "subtract": INTEGER + FLOAT + COMPLEX, "divide": INTEGER + FLOAT + COMPLEX,
    "power": INTEGER + FLOAT + COMPLEX,
    "remainder": INTEGER + FLOAT,
    "and": PREDICATE + INTEGER, "or": PREDICATE + INTEGER, "xor": PREDICATE + INTEGER,
    "shift-left": INTEGER, "shift-right-arithmetic": INTEGER, "shift-right-logical": INTEGER,
    "atan2": FLOAT + COMPLEX,
    "complex": ["f32", "f64"],
}

# The functions in numpy, for operands that XLA:CPU flushes to zero. Computed in more bits than the type has.
FUNCTIONS = {
    "abs": np.abs, "negate": np.negative, "sign": np.sign, "is-finite": np.isfinite, "real": np.real, "imag": np.imag,
    "ceil": np.ceil, "floor": np.floor, "round-nearest-even": np.rint, "round-nearest-afz": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "cbrt": np.cbrt, "erf": lambda x: x * x.dtype.type(2 / np.sqrt(np.longdouble(np.pi))),
    "exponential": np.exp, "exponential-minus-one": np.expm1, "log": np.log, "log-plus-one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt,
    "cosine": np.cos, "sine": np.sin, "tan": np.tan, "tanh": np.tanh, "acos": np.arccos, "acosh": np.arccosh,
    "asin": np.arcsin, "asinh": np.arcsinh, "atanh": np.arctanh, "cosh": np.cosh, "sinh": np.sinh,
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "remainder": np.fmod,
}


def result_type(op, element_type):
    if op == "is-finite":
        return "pred"
    if op in ("abs", "real", "imag"):
        return PARTS.get(element_type, element_type)
    if op == "complex":
        return {"f32": "c64", "f64": "c128"}[element_type]
    return element_type


def text(op, element_type, sizes, operands, layout=None):
    arguments = ", ".join(f"p{number}" for number in range(operands))
    result = shape(result_type(op, element_type), sizes, layout)
    return program(f"{result} {op}({arguments})", [shape(element_type, sizes, layout)] * operands)


def in_more_bits(op, element_type):
    """The function on wider floats, rounded once to the type of the result."""
    wide = {"f64": np.longdouble, "c64": np.complex128, "c128": np.clongdouble}.get(element_type, np.float64)
    narrow = numpy_type(result_type(op, element_type))

    def function(*operands):
        results = FUNCTIONS[op](*(operand.astype(wide) for operand in operands))
        # What XLA:CPU makes of NaN in a type without.
        return (np.where(np.isnan(results), -0.0, results) if element_type == "f4e2m1fn" else results).astype(narrow)

    return function


# Complex functions whose infinities and NaN ISO C defines (Annex G). XLA:CPU has its own, which differ from function to
# function, so numpy's count there and near overflow.
ISO_C = ["abs", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "cosine", "exponential", "log", "sine", "sinh", "sqrt", "tan", "tanh"]
# Complex functions that neither numpy nor ISO C has.
FINITE_ONLY = ["atan2", "exponential-minus-one", "log-plus-one", "logistic", "power", "rsqrt", "sign"]

# XLA:CPU has no code for these.
WITHOUT_XLA = ["acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"]

PARTS_TYPES = {"c64": np.float32, "c128": np.float64}

# sizes, layout: the shapes that every operation meets in one type of its own.
SHAPES = [
    ("scalar", (), None), ("empty", (0,), None), ("empty inside", (2, 0, 3), None), ("one", (1, 1, 1), None),
    ("transposed", (5, 3), (0, 1)), ("rank 5", (2, 1, 3, 1, 2), None), ("vector", (1023,), None),
]


def has_unspecified_sign(op, values):
    """Where ISO C leaves the sign of an infinite part open."""
    re, im = {"sine": (values.imag, values.real), "cosine": (values.imag, values.real)}.get(op, (values.real, values.imag))
    if op in ("sinh", "sine", "cosh", "cosine", "exponential"):
        return np.isinf(re) & ~np.isfinite(im)
    if op in ("acos", "sqrt"):
        return np.isinf(re) & np.isnan(im)
    if op in ("asin", "atanh"):
        return np.isnan(re) & np.isinf(im) | np.isinf(re) & np.isnan(im)
    return (op == "asinh") & np.isnan(re) & np.isinf(im)


def complex_cases(op, element_type, count):
    """Finite values as XLA:CPU has them; infinities, NaN and the largest and smallest magnitudes as ISO C has them."""
    def case(what, operands, *source):
        return Case(op, element_type, what, text(op, element_type, operands[0].shape, count), operands, *source)

    source = (in_more_bits(op, element_type), "ieee") if op in WITHOUT_XLA else ()
    if op not in ISO_C + FINITE_ONLY:
        values = special(element_type)
        yield case("special values", [values] if count == 1 else list(pairs(values)))
    else:
        # The branch cut of atan2 is where rounding errors choose between two values.
        parts = [0, 0.5, -0.5, 1, -1, 2.5, -3, 1e-3] if count == 1 else [0.5, 1, 2.5] if op == "atan2" else [0.5, 1, -1, 2.5]
        values = grid(element_type, parts)
        yield case("special values", [values] if count == 1 else list(pairs(values)), *source)
    if op in ISO_C:
        values = special(element_type)
        values = values[~has_unspecified_sign(op, values)]
        yield case("infinities and NaN", [values], in_more_bits(op, element_type), "ieee")
    if op in ("abs", "sqrt", "log", "asin", "acos", "asinh", "acosh", "atanh", "tanh", "tan"):
        info = np.finfo(PARTS_TYPES[element_type])
        values = grid(element_type, [info.max, -info.max / 2, np.sqrt(info.max), info.tiny, np.sqrt(info.tiny), 1, -2, 1 + info.eps])
        yield case("magnitudes", [values], in_more_bits(op, element_type), "ieee")
    if op not in ("real", "imag"):
        magnitude = 3 if op in FINITE_ONLY else 10 if op in ISO_C else None
        if op == "atan2":
            inputs = [grid(element_type, parts) for parts in ([0.25, 3, 7], [1.5, 2, 6])]
        else:
            inputs = [random(element_type, (3, 5, 7), op, number, magnitude=magnitude) for number in range(count)]
        yield case("random values", inputs, *source)


def cases():
    for table, count in ((UNARY, 1), (BINARY, 2)):
        for op, types in table.items():
            for element_type in types:
                if element_type in COMPLEX:
                    yield from complex_cases(op, element_type, count)
                    continue
                source = (in_more_bits(op, element_type), "ieee") if op in WITHOUT_XLA else ()
                if op == "popcnt" and element_type in ("s2", "s4"):
                    # XLA:CPU counts the bits of the sign-extended byte.
                    source = (bits_of_width(element_type), "document")
                values = special(element_type, few=count == 2)
                operands = [values] if count == 1 else list(pairs(values))
                program = text(op, element_type, operands[0].shape, count)
                yield Case(op, element_type, "special values", program, operands, *source)
                sizes = (3, 5, 7)
                inputs = [random(element_type, sizes, op, number) for number in range(count)]
                yield Case(op, element_type, "random values", text(op, element_type, sizes, count), inputs, *source)
                if element_type in WIDE_FLOAT and op in FUNCTIONS:
                    values = denormal(element_type)
                    operands = [values] if count == 1 else list(pairs(values))
                    yield Case(
                        op, element_type, "denormal numbers", text(op, element_type, operands[0].shape, count), operands,
                        in_more_bits(op, element_type), "ieee",
                    )
            element_type = "f32" if "f32" in types else "s32"
            for what, sizes, layout in SHAPES:
                source = (in_more_bits(op, element_type), "ieee") if op in WITHOUT_XLA else ()
                inputs = [random(element_type, sizes, op, number, what) for number in range(count)]
                yield Case(op, element_type, what, text(op, element_type, sizes, count, layout), inputs, *source)


def bits_of_width(element_type):
    mask = {"s2": 3, "s4": 15}[element_type]
    return lambda values: np.bitwise_count(values.astype(np.int8).view(np.uint8) & mask).astype(values.dtype)
