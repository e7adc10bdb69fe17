"""Programs of one kind and of so many instructions: how the time to compile them grows."""

SIZES = (1_000, 4_000, 16_000, 64_000)

SUM = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"

LESS = "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT l = pred[] compare(a, b), direction=LT\n}\n"


class Text:
    """An entry computation in the making."""

    def __init__(self, parameters=("f32[8]",)):
        # What stands after `<` is about a parameter's numbers.
        shapes = [parameter.split("<")[0] for parameter in parameters]
        self.lines = [f"  p{number} = {shape} parameter({number})" for number, shape in enumerate(shapes)]
        self.parameters = parameters
        self.computations = []

    def __len__(self):
        return len(self.lines)

    def add(self, shape, instruction):
        """Adds an instruction and gives its name."""
        self.lines.append(f"  v{len(self.lines)} = {shape} {instruction}")
        return f"v{len(self.lines) - 1}"

    def finish(self):
        *lines, root = self.lines
        lines.append(root.replace("  ", "  ROOT ", 1))
        return f"HloModule growth\n\n{''.join(self.computations)}ENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def chain_of(shape, *instructions, parameters=(), computations=()):
    """A kind in which each instruction uses the one before, `{}` in the text, and perhaps further parameters."""

    def write(count):
        text = Text((shape, *parameters))
        text.computations += computations
        last = "p0"
        while len(text) < count:
            for result, instruction in instructions:
                last = text.add(result, instruction.format(last))
        return text

    return write


def fan_out(count):
    """One value with many users."""
    text = Text()
    last = text.add("f32[8]", "exponential(p0)")
    x = last
    while len(text) < count:
        last = text.add("f32[8]", f"add({last}, {x})")
    return text


def tree(count):
    """Many users of one value, added up in pairs."""
    text = Text()
    level = [text.add("f32[8]", "multiply(p0, p0)") for _ in range(count // 2)]
    while len(level) > 1:
        level = [text.add("f32[8]", f"add({', '.join(level[i:i + 2])})") for i in range(0, len(level) - 1, 2)] + (
            [level[-1]] if len(level) % 2 else [])
    return text


def parameters(count):
    text = Text(["f32[8]"] * (count // 2))
    last = "p0"
    for number in range(1, count // 2):
        last = text.add("f32[8]", f"add({last}, p{number})")
    return text


def results(count):
    text = Text()
    values = ["p0"]
    while len(text) < count:
        values.append(text.add("f32[8]", f"{('sine', 'negate', 'abs')[len(text) % 3]}({values[-1]})"))
    text.add(f"({', '.join(['f32[8]'] * len(values))})", f"tuple({', '.join(values)})")
    return text


def constants(count):
    text = Text()
    last = "p0"
    while len(text) < count:
        constant = text.add("f32[8]", f"constant({{{', '.join(str(len(text) + i) for i in range(8))}}})")
        last = text.add("f32[8]", f"add({last}, {constant})")
    return text


def tuples(count):
    """Each instruction makes a tuple or takes it apart."""
    text = Text()
    a, b = "p0", "p0"
    while len(text) < count:
        made = text.add("(f32[8], f32[8])", f"tuple({a}, {b})")
        a = text.add("f32[8]", f"get-tuple-element({made}), index=1")
        b = text.add("f32[8]", f"get-tuple-element({made}), index=0")
    text.add("f32[8]", f"add({a}, {b})")
    return text


def concatenate(count):
    """One concatenate of all that the other instructions make."""
    text = Text()
    values = []
    while len(text) < count:
        constant = text.add("f32[]", f"constant({len(text)})")
        broadcast = text.add("f32[8]", f"broadcast({constant}), dimensions={{}}")
        values.append(text.add("f32[8]", f"multiply(p0, {broadcast})"))
    text.add(f"f32[{8 * len(values)}]", f"concatenate({', '.join(values)}), dimensions={{0}}")
    return text


def repeated_operand(count):
    """One concatenate of one value as often."""
    text = Text()
    value = text.add("f32[8]", "sine(p0)")
    text.add(f"f32[{8 * count}]", f"concatenate({', '.join([value] * count)}), dimensions={{0}}")
    return text


def slices(count):
    """Slices of one array, and a concatenate of them."""
    text = Text((f"f32[{count + 8}]",))
    values = [text.add("f32[8]", f"slice(p0), slice={{[{number}:{number + 8}]}}") for number in range(count)]
    text.add(f"f32[{8 * count}]", f"concatenate({', '.join(values)}), dimensions={{0}}")
    return text


def calls(count):
    """Computations that call the one before."""
    text = Text()
    text.computations.append("f0 {\n  a = f32[8] parameter(0)\n  ROOT r = f32[8] negate(a)\n}\n")
    for number in range(1, count // 3):
        text.computations.append(
            f"f{number} {{\n  a = f32[8] parameter(0)\n  n = f32[8] sine(a)\n"
            f"  ROOT r = f32[8] call(n), to_apply=f{number - 1}\n}}\n")
    text.add("f32[8]", f"call(p0), to_apply=f{count // 3 - 1}")
    return text


def conditionals(count):
    text = Text(("f32[8]", "pred[]"))
    last = "p0"
    for number in range(count // 6):
        text.computations.append(
            f"t{number} {{\n  a = f32[8] parameter(0)\n  ROOT r = f32[8] negate(a)\n}}\n"
            f"f{number} {{\n  a = f32[8] parameter(0)\n  ROOT r = f32[8] sine(a)\n}}\n")
        last = text.add("f32[8]", f"conditional(p1, {last}, {last}), true_computation=t{number}, false_computation=f{number}")
    return text


def whiles(count):
    text = Text()
    zero = text.add("s32[]", "constant(0)")
    last = "p0"
    state = "(s32[], f32[8])"
    for number in range(count // 12):
        text.computations.append(
            f"c{number} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n"
            f"  ROOT r = pred[] compare(i, n), direction=LT\n}}\n"
            f"b{number} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
            f"  j = s32[] add(i, one)\n  x = f32[8] get-tuple-element(s), index=1\n  y = f32[8] sine(x)\n"
            f"  ROOT r = {state} tuple(j, y)\n}}\n")
        made = text.add(state, f"tuple({zero}, {last})")
        loop = text.add(state, f"while({made}), condition=c{number}, body=b{number}")
        last = text.add("f32[8]", f"get-tuple-element({loop}), index=1")
    return text


# name: what writes a program of about so many instructions
KINDS = {
    "chain": chain_of("f32[8]", ("f32[8]", "negate({})"), ("f32[8]", "add({}, p0)")),
    "fan_out": fan_out,
    "tree": tree,
    "parameters": parameters,
    "results": results,
    "constants": constants,
    "tuples": tuples,
    "concatenate": concatenate,
    "repeated_operand": repeated_operand,
    "slices": slices,
    "calls": calls,
    "conditionals": conditionals,
    "whiles": whiles,
    "gathers": chain_of(
        "f32[8]",
        ("f32[8]", "gather({}, p1), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
                   "index_vector_dim=1, slice_sizes={{1}}"),
        parameters=("s32[8,1]",)),
    "scatters": chain_of(
        "f32[8]",
        ("f32[8]", "scatter({}, p1, p2), update_window_dims={{}}, inserted_window_dims={{0}}, "
                   "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum"),
        parameters=("s32[4,1]", "f32[4]"), computations=[SUM]),
    "updates": chain_of(
        "f32[64]", ("f32[64]", "dynamic-update-slice({}, p1, p2)"), parameters=("f32[4]", "s32[]")),
    "reshapes": chain_of(
        "f32[6,35]", ("f32[35,6]", "transpose({}), dimensions={{1,0}}"), ("f32[14,15]", "reshape({})"),
        ("f32[15,14]", "transpose({}), dimensions={{1,0}}"), ("f32[6,35]", "reshape({})")),
    "reduces": chain_of(
        "f32[8,8]", ("f32[8]", "reduce({}, p1), dimensions={{1}}, to_apply=sum"),
        ("f32[8,8]", "broadcast({}), dimensions={{0}}"), parameters=("f32[]",), computations=[SUM]),
    "dots": chain_of(
        "f32[8,8]", ("f32[8,8]", "dot({}, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"),
        parameters=("f32[8,8]",)),
    "pads": chain_of(
        "f32[8]", ("f32[10]", "pad({}, p1), padding=1_1"), ("f32[8]", "slice({}), slice={{[2:10]}}"), parameters=("f32[]",)),
    "windows": chain_of(
        "f32[32]", ("f32[32]", "reduce-window({}, p1), window={{size=3 pad=1_1}}, to_apply=sum"), ("f32[32]", "negate({})"),
        parameters=("f32[]",), computations=[SUM]),
    "scans": chain_of(
        "f32[32]", ("f32[32]", "reduce-window({}, p1), window={{size=32 pad=31_0}}, to_apply=sum"), ("f32[32]", "negate({})"),
        parameters=("f32[]",), computations=[SUM]),
    "sorts": chain_of(
        "f32[32]", ("f32[32]", "sort({}), dimensions={{0}}, to_apply=less"), ("f32[32]", "add({}, p0)"),
        computations=[LESS]),
    "convolutions": chain_of(
        "f32[1,8,8,4]",
        ("f32[1,8,8,4]", "convolution({}, p1), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f"),
        parameters=("f32[3,3,4,4]",)),
    "transforms": chain_of("c64[16]", ("c64[16]", "fft({}), fft_type=FFT, fft_length={{16}}"), ("c64[16]", "add({}, p0)")),
    "reverses": chain_of("f32[8,8]", ("f32[8,8]", "reverse({}), dimensions={{0}}"), ("f32[8,8]", "sine({})")),
}
