"""Programs of one kind and of so many elements: how the time to run them grows."""
from growth_of_compiling import LESS, SUM, Text

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def sides(count):
    """Two numbers of about the same size whose product is the count."""
    side = next(side for side in range(int(count**0.5), 0, -1) if count % side == 0)
    return side, count // side


def of(instruction, result="f32[{n}]", parameters=("f32[{n}]",), computations=()):
    """A kind of one instruction; in it `{n}` is the number of elements, `{rows}` and `{columns}` those of a matrix of as many.
    A parameter's numbers are below what stands after `<`."""

    def write(count):
        rows, columns = sides(count)
        filled = lambda text: text.format(n=count, rows=rows, columns=columns, half=count // 2,
                                            last=count - 1, above=rows - 1, less=count - 2)
        text = Text([filled(parameter) for parameter in parameters])
        text.computations += computations
        text.add("f32[]", "constant(0)")
        text.add(filled(result), filled(instruction))
        return text

    return write


def loop(state, body, trips):
    """A kind of a loop whose state is a counter and an array; the body computes `y` of `x` in so many elements a trip."""

    def write(count):
        text = Text([f"f32[{state(count)}]"])
        whole = f"(s32[], f32[{state(count)}])"
        text.computations.append(
            f"c {{\n  s = {whole} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant({trips(count)})\n"
            f"  ROOT r = pred[] compare(i, n), direction=LT\n}}\n"
            f"b {{\n  s = {whole} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
            f"  j = s32[] add(i, one)\n  x = f32[{state(count)}] get-tuple-element(s), index=1\n{body.format(n=state(count))}\n"
            f"  ROOT r = {whole} tuple(j, y)\n}}\n")
        zero = text.add("s32[]", "constant(0)")
        made = text.add(whole, f"tuple({zero}, p0)")
        end = text.add(whole, f"while({made}), condition=c, body=b")
        text.add(f"f32[{state(count)}]", f"get-tuple-element({end}), index=1")
        return text

    return write


POINTS = "update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum"

# name: what writes a program of so many elements
KINDS = {
    "cumsum": of("reduce-window(p0, v1), window={{size={n} pad={last}_0}}, to_apply=sum", computations=[SUM]),
    "cumsum_columns": of("reduce-window(p0, v1), window={{size={rows}x1 pad={above}_0x0_0}}, to_apply=sum",
                         "f32[{rows},{columns}]", ["f32[{rows},{columns}]"], [SUM]),
    "sort": of("sort(p0), dimensions={{0}}, to_apply=less", computations=[LESS]),
    "reduce": of("reduce(p0, v1), dimensions={{0}}, to_apply=sum", "f32[]", computations=[SUM]),
    "reduce_rows": of("reduce(p0, v1), dimensions={{1}}, to_apply=sum", "f32[{rows}]", ["f32[{rows},{columns}]"], [SUM]),
    "reduce_columns": of("reduce(p0, v1), dimensions={{0}}, to_apply=sum", "f32[{columns}]", ["f32[{rows},{columns}]"], [SUM]),
    "concatenate": of("concatenate(p0, p1), dimensions={{0}}", parameters=["f32[{half}]"] * 2),
    "concatenate_columns": of("concatenate(p0, p0), dimensions={{1}}", "f32[{half},2]", ["f32[{half},1]"]),
    "gather": of("gather(p0, p1), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, "
                 "slice_sizes={{1}}", parameters=["f32[{n}]", "s32[{n},1]<{last}"]),
    "scatter": of(f"scatter(p0, p1, p2), {POINTS}", parameters=["f32[{n}]", "s32[{n},1]<{last}", "f32[{n}]"], computations=[SUM]),
    "segment_sum": of(f"scatter(p0, p1, p2), {POINTS}", "f32[100]", ["f32[100]", "s32[{n},1]<99", "f32[{n}]"], [SUM]),
    "transpose": of("transpose(p0), dimensions={{1,0}}", "f32[{columns},{rows}]", ["f32[{rows},{columns}]"]),
    "transform": of("fft(p0), fft_type=FFT, fft_length={{{n}}}", "c64[{n}]", ["c64[{n}]"]),
    "pad": of("pad(p0, v1), padding=1_1", "f32[{n}]", ["f32[{less}]"]),
    "while": loop(lambda count: 8, "  n2 = f32[{n}] multiply(x, x)\n  y = f32[{n}] subtract(x, n2)", lambda count: count),
    "while_updates": loop(
        lambda count: count,
        "  u = f32[100] dynamic-slice(x, i), dynamic_slice_sizes={{100}}\n  t = f32[100] add(u, u)\n"
        "  y = f32[{n}] dynamic-update-slice(x, t, i)",
        lambda count: count // 100),
}
