"""How compile times grow: programs of one kind and of more and more instructions, and the exponent of the time.

An exponent of 1 is time proportional to the number of instructions, 2 its square. It is taken between the two largest
programs that a compiler finished within the limit.
"""
import json
import math
import pathlib
import select
import tempfile

SIZES = (1_000, 4_000, 16_000, 64_000)

SUM = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"


class Text:
    """An entry computation in the making."""

    def __init__(self, parameters=("f32[8]",)):
        self.lines = [f"  p{number} = {shape} parameter({number})" for number, shape in enumerate(parameters)]
        self.parameters = parameters
        self.computations = []

    def __len__(self):
        return len(self.lines)

    def add(self, shape, instruction):
        """Adds an instruction and gives its name."""
        self.lines.append(f"  v{len(self.lines)} = {shape} {instruction}")
        return f"v{len(self.lines) - 1}"

    def finish(self):
        # The last instruction is the root.
        self.lines[-1] = self.lines[-1].replace("  ", "  ROOT ", 1)
        return f"HloModule growth\n\n{''.join(self.computations)}ENTRY e {{\n" + "\n".join(self.lines) + "\n}\n"


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
        "f32[8,8]", ("f32[]", "constant(0)"), ("f32[8]", "reduce(p0, {}), dimensions={{1}}, to_apply=sum"),
        ("f32[8,8]", "broadcast({}), dimensions={{0}}"), computations=[SUM]),
    "dots": chain_of(
        "f32[8,8]", ("f32[8,8]", "dot({}, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"),
        parameters=("f32[8,8]",)),
    "pads": chain_of(
        "f32[8]", ("f32[10]", "pad({}, p1), padding=1_1"), ("f32[8]", "slice({}), slice={{[2:10]}}"), parameters=("f32[]",)),
    "reverses": chain_of("f32[8,8]", ("f32[8,8]", "reverse({}), dimensions={{0}}"), ("f32[8,8]", "sine({})")),
}


def description(text):
    """The inputs of a program, as the workers read them."""
    parameters = []
    for shape in text.parameters:
        kind, dimensions = shape.rstrip("]").split("[")
        high = 1 if kind == "pred" else 3
        dimensions = [int(size) for size in dimensions.split(",") if size]
        parameters.append({"name": "p", "shape": dimensions, "dtype": kind, "fill": {"lo": 0, "hi": high}})
    return {"parameters": parameters}


def compile_time(worker, module, spec, limit):
    """Milliseconds, or None where the compiler fails or takes longer than `limit` seconds."""
    request = json.dumps({"command": "load", "module": str(module), "spec": str(spec)})
    try:
        worker.process.stdin.write(request + "\n")
        worker.process.stdin.flush()
        ready, _, _ = select.select([worker.process.stdout], [], [], limit)
        answer = json.loads(worker.process.stdout.readline() or "{}") if ready else {}
    except (BrokenPipeError, json.JSONDecodeError):
        answer = {}
    if "compile_ms" not in answer:
        worker.process.kill()
    worker.close()
    return answer.get("compile_ms")


def exponent(times):
    """Of the two largest sizes that were finished."""
    found = [(size, time) for size, time in times if time]
    if len(found) < 2:
        return None
    (size, time), (larger, longer) = found[-2:]
    return math.log(longer / time) / math.log(larger / size)


def measure(commands, start, patterns, sizes, limit):
    """{kind: {compiler: [[size, milliseconds or None]]}}, printed as they come; `start` makes a worker of a command."""
    heading = "".join(f"{size:>10}" for size in sizes) + f"{'exponent':>10}"
    print(f"compile times in ms of programs of so many instructions, and their growth between the largest two; limit {limit} s")
    print(f"{'':<14}{'':<6}{heading}")
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        module, spec = pathlib.Path(folder) / "growth.hlo", pathlib.Path(folder) / "growth.json"
        for kind, write in KINDS.items():
            if patterns and not any(pattern in kind for pattern in patterns):
                continue
            table[kind] = {compiler: [] for compiler in commands}
            for size in sizes:
                text = write(size)
                module.write_text(text.finish())
                spec.write_text(json.dumps(description(text)))
                for compiler, command in commands.items():
                    times = table[kind][compiler]
                    # What took too long once is not tried with more.
                    time = None if times and times[-1][1] is None else compile_time(start(command), module, spec, limit)
                    times.append([size, time])
            for compiler, times in table[kind].items():
                cells = "".join(f"{'-' if time is None else f'{time:.1f}':>10}" for _, time in times)
                growth = exponent(times)
                print(f"{kind:<14}{compiler:<6}{cells}{'' if growth is None else f'{growth:.2f}':>10}", flush=True)
    return table
