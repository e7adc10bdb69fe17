"""Programs of one function of each of a million elements."""

# The functions that are operations of HLO, by their names there, with numbers of their domains.
OPERATIONS = {
    "cbrt": (-1, 1), "cosine": (-9, 9), "erf": (-1, 1), "exponential": (-1, 1), "exponential-minus-one": (-1, 1), "log": (1, 2),
    "log-plus-one": (0, 1), "logistic": (-1, 1), "rsqrt": (1, 2), "sine": (-9, 9), "sqrt": (0, 1), "tan": (-1, 1),
    "tanh": (-1, 1),
}
NAMES = {"exponential": "exp", "exponential-minus-one": "expm1", "log-plus-one": "log1p", "sine": "sin", "cosine": "cos"}

# Those that JAX writes as others, as it does; XLA has no code for the operations that HLO has for them.
EXPANSIONS = {
    "acos": (-1, 1, """below = {T} subtract(one, p0)
above = {T} add(p0, one)
product = {T} multiply(below, above)
root = {T} sqrt(product)
{T} atan2(root, p0)"""),
    "acosh": (1, 9, """is_large = {P} compare(p0, large), direction=GE
logarithm = {T} log(p0)
of_large = {T} add(logarithm, ln2)
below = {T} subtract(p0, one)
root_below = {T} sqrt(below)
above = {T} add(p0, one)
root_above = {T} sqrt(above)
roots = {T} add(root_above, root_below)
product = {T} multiply(root_below, roots)
of_small = {T} log-plus-one(product)
{T} select(is_large, of_large, of_small)"""),
    "asin": (-1, 1, """below = {T} subtract(one, p0)
above = {T} add(p0, one)
product = {T} multiply(below, above)
root = {T} sqrt(product)
more = {T} add(root, one)
half_angle = {T} atan2(p0, more)
{T} add(half_angle, half_angle)"""),
    "asinh": (-9, 9, """sign = {T} sign(p0)
size = {T} abs(p0)
is_large = {P} compare(size, large), direction=GE
logarithm = {T} log(size)
of_large = {T} add(logarithm, ln2)
square = {T} multiply(size, size)
above = {T} add(square, one)
root = {T} sqrt(above)
more = {T} add(root, one)
part = {T} divide(square, more)
sum = {T} add(size, part)
of_small = {T} log-plus-one(sum)
either = {T} select(is_large, of_large, of_small)
{T} multiply(sign, either)"""),
    "atan": (-9, 9, "{T} atan2(p0, one)"),
    "atanh": (-1, 1, """size = {T} abs(p0)
is_outside = {P} compare(size, one), direction=GT
above = {T} log-plus-one(p0)
negative = {T} negate(p0)
below = {T} log-plus-one(negative)
difference = {T} subtract(above, below)
inside = {T} multiply(difference, half)
{T} select(is_outside, none, inside)"""),
    "cosh": (-9, 9, """less = {T} add(p0, less_ln2)
growing = {T} exponential(less)
negative = {T} subtract(less_ln2, p0)
falling = {T} exponential(negative)
{T} add(growing, falling)"""),
    "sinh": (-9, 9, """size = {T} abs(p0)
is_small = {P} compare(size, one), direction=LT
growth = {T} exponential-minus-one(p0)
power = {T} add(growth, one)
quotient = {T} divide(growth, power)
sum = {T} add(growth, quotient)
of_small = {T} multiply(sum, half)
less = {T} add(p0, less_ln2)
growing = {T} exponential(less)
negative = {T} subtract(less_ln2, p0)
falling = {T} exponential(negative)
of_large = {T} subtract(growing, falling)
{T} select(is_small, of_small, of_large)"""),
}
CONSTANTS = {"one": "1", "half": "0.5", "ln2": "0.6931471805599453", "less_ln2": "-0.6931471805599453", "large": "1.8446743e+19",
             "none": "nan"}


def elementwise(operation, low=-1, high=1, kind="f32", operands=1):
    """An operation: its parameters and its text."""
    names = ", ".join(f"p{number}" for number in range(operands))
    return [(kind, [1024, 1024], low, high)] * operands, f"{kind}[1024,1024] {operation}({names})"


def expansion(low, high, text, kind):
    """Several operations with the constants that they name."""
    constants = "".join(
        f"the_{name} = {kind}[] constant({value})\n{name} = {kind}[1024,1024] broadcast(the_{name}), dimensions={{}}\n"
        for name, value in CONSTANTS.items() if f"({name}," in text or f", {name}" in text
    )
    return [(kind, [1024, 1024], low, high)], constants + text.format(T=f"{kind}[1024,1024]", P="pred[1024,1024]")


def functions(kind):
    """A program of each function in an element type, by name."""
    suffix = "1m" if kind == "f32" else f"{kind}_1m"
    programs = {NAMES.get(name, name): elementwise(name, *domain, kind) for name, domain in OPERATIONS.items()}
    programs |= {name: expansion(*about, kind) for name, about in EXPANSIONS.items()}
    programs["pow"] = elementwise("power", 0, 2, kind, 2)
    programs["atan2"] = elementwise("atan2", -1, 1, kind, 2)
    divided = [(kind, [1024, 1024], -1, 1), (kind, [1024, 1024], 1, 2)]
    programs["remainder"] = divided, f"{kind}[1024,1024] remainder(p0, p1)"
    return {f"{name}_{suffix}": program for name, program in programs.items()}
