"""Programs of one operation each, as HLO text with descriptions of their inputs."""
import json
import math

from elementwise import elementwise, functions

COMPUTATIONS = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
product {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] multiply(a, b)
}
largest {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
less_of_integers {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
less_of_pairs {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT
}
less_of_two_keys {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  e = s32[] parameter(4)
  f = s32[] parameter(5)
  first = pred[] compare(a, b), direction=LT
  same = pred[] compare(a, b), direction=EQ
  second = pred[] compare(c, d), direction=LT
  ROOT l = pred[] select(same, second, first)
}
arg_largest {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  first = pred[] compare(a, b), direction=GE
  value = f32[] select(first, a, b)
  place = s32[] select(first, i, j)
  ROOT r = (f32[], s32[]) tuple(value, place)
}
counting_condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10000)
  ROOT r = pred[] compare(i, n), direction=LT
}
counting_body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8] get-tuple-element(s), index=1
  y = f32[8] multiply(x, x)
  z = f32[8] subtract(x, y)
  ROOT r = (s32[], f32[8]) tuple(j, z)
}
update_condition {
  s = (s32[], f32[1024,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(1024)
  ROOT r = pred[] compare(i, n), direction=LT
}
update_body {
  s = (s32[], f32[1024,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  x = f32[1024,256] get-tuple-element(s), index=1
  row = f32[1,256] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,256}
  twice = f32[1,256] add(row, row)
  y = f32[1024,256] dynamic-update-slice(x, twice, i, zero)
  ROOT r = (s32[], f32[1024,256]) tuple(j, y)
}
"""


def f32(*dimensions, low=-1, high=1):
    return ("f32", list(dimensions), low, high)


def s32(*dimensions, low=0, high=1):
    return ("s32", list(dimensions), low, high)


def dot(left, right, contracted=(1, 0), kind="f32", result=None):
    """A product of matrices."""
    rows, columns = left[1 - contracted[0]], right[1 - contracted[1]]
    ones = {"s8": (-9, 9)}.get(kind, (-1, 1))
    return (
        [(kind, list(left), *ones), (kind, list(right), *ones)],
        f"{result or kind}[{rows},{columns}] dot(p0, p1), lhs_contracting_dims={{{contracted[0]}}}, "
        f"rhs_contracting_dims={{{contracted[1]}}}",
    )


def convolution(image, kernel, result, window, labels="b01f_01io->b01f", more=""):
    shape = ",".join(map(str, result))
    return [f32(*image), f32(*kernel)], f"f32[{shape}] convolution(p0, p1), window={{{window}}}, dim_labels={labels}{more}"


def transpose(sizes, permutation, kind="f32"):
    result = ",".join(str(sizes[dimension]) for dimension in permutation)
    low, high = (0, 9) if kind == "s8" else (-1, 1)
    return [(kind, sizes, low, high)], f"{kind}[{result}] transpose(p0), dimensions={{{','.join(map(str, permutation))}}}"


def cumulative(computation, start, sizes=(64, 4096), along=1, is_reversed=False):
    """A scan along a dimension."""
    shape = f"f32[{','.join(map(str, sizes))}]"
    before = [0 if number != along else size - 1 for number, size in enumerate(sizes)]
    pads = "x".join(f"0_{size}" if is_reversed else f"{size}_0" for size in before)
    window = "x".join(str(size + 1) for size in before)
    return [f32(*sizes)], (
        f"start = f32[] constant({start})\n"
        f"{shape} reduce-window(p0, start), window={{size={window} pad={pads}}}, to_apply={computation}")


def reduction(sizes, dimension, computation="sum", start=0):
    kept = ",".join(str(size) for number, size in enumerate(sizes) if number != dimension)
    return [f32(*sizes)], (
        f"start = f32[] constant({start})\nf32[{kept}] reduce(p0, start), dimensions={{{dimension}}}, to_apply={computation}")


def roll(sizes, dimension, distance):
    """The last elements of a dimension before the first ones."""
    shape = lambda size: f"f32[{','.join(str(size if number == dimension else own) for number, own in enumerate(sizes))}]"
    length = sizes[dimension]
    part = lambda low, high: ", ".join(f"[{low}:{high}]" if number == dimension else f"[0:{own}]" for number, own in enumerate(sizes))
    return [f32(*sizes)], (
        f"end = {shape(distance)} slice(p0), slice={{{part(length - distance, length)}}}\n"
        f"begin = {shape(length - distance)} slice(p0), slice={{{part(0, length - distance)}}}\n"
        f"{shape(length)} concatenate(end, begin), dimensions={{{dimension}}}")


def attention(length, kind="f32", is_causal=False):
    """One head of 64 features for a batch of 8."""
    whole, square = f"[8,{length},64]", f"f32[8,{length},{length}]"
    mask = f"""query = s32[{length},{length}] iota(), iota_dimension=0
key = s32[{length},{length}] iota(), iota_dimension=1
is_before = pred[{length},{length}] compare(query, key), direction=GE
are_before = pred[8,{length},{length}] broadcast(is_before), dimensions={{1,2}}
hidden = f32[] constant(-1e9)
all_hidden = {square} broadcast(hidden), dimensions={{}}
logits = {square} select(are_before, scores, all_hidden)
""" if is_causal else ""
    lines = softmax_lines("logits" if is_causal else "scores", square, f"f32[8,{length}]", "0,1", 2)
    weights = f"weights = {kind}[8,{length},{length}] convert(normal)"
    return [(kind, [8, length, 64], -1, 1)] * 3, f"""scores = {square} dot(p0, p1), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
{mask}{lines}
{weights}
f32{whole} dot(weights, p2), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"""


def softmax_lines(operand, shape, kept, broadcast, dimension):
    return f"""least = f32[] constant(-inf)
zero = f32[] constant(0)
most = {kept} reduce({operand}, least), dimensions={{{dimension}}}, to_apply=largest
mosts = {shape} broadcast(most), dimensions={{{broadcast}}}
below = {shape} subtract({operand}, mosts)
exponential = {shape} exponential(below)
total = {kept} reduce(exponential, zero), dimensions={{{dimension}}}, to_apply=sum
totals = {shape} broadcast(total), dimensions={{{broadcast}}}
normal = {shape} divide(exponential, totals)"""


def softmax(rows, columns):
    lines = softmax_lines("p0", f"f32[{rows},{columns}]", f"f32[{rows}]", "0", 1)
    return [f32(rows, columns)], lines + f"\nf32[{rows},{columns}] copy(normal)"


def layer_norm(rows, columns):
    whole, row = f"f32[{rows},{columns}]", f"f32[{rows}]"
    return [f32(rows, columns), f32(columns), f32(columns)], f"""zero = f32[] constant(0)
count = f32[] constant({columns})
counts = {row} broadcast(count), dimensions={{}}
total = {row} reduce(p0, zero), dimensions={{1}}, to_apply=sum
mean = {row} divide(total, counts)
means = {whole} broadcast(mean), dimensions={{0}}
centred = {whole} subtract(p0, means)
squares = {whole} multiply(centred, centred)
spread = {row} reduce(squares, zero), dimensions={{1}}, to_apply=sum
variance = {row} divide(spread, counts)
small = f32[] constant(1e-5)
smalls = {row} broadcast(small), dimensions={{}}
shifted = {row} add(variance, smalls)
scale = {row} rsqrt(shifted)
scales = {whole} broadcast(scale), dimensions={{0}}
normal = {whole} multiply(centred, scales)
gain = {whole} broadcast(p1), dimensions={{1}}
bias = {whole} broadcast(p2), dimensions={{1}}
gained = {whole} multiply(normal, gain)
{whole} add(gained, bias)"""


def arg_largest(rows, columns, dimension):
    kept = columns if dimension == 0 else rows
    return [f32(rows, columns)], f"""places = s32[{rows},{columns}] iota(), iota_dimension={dimension}
least = f32[] constant(-inf)
none = s32[] constant(0)
both = (f32[{kept}], s32[{kept}]) reduce(p0, places, least, none), dimensions={{{dimension}}}, to_apply=arg_largest
s32[{kept}] get-tuple-element(both), index=1"""


def chain(length, sizes):
    """Small instructions, each of the one before."""
    shape = f"f32[{','.join(map(str, sizes))}]"
    lines = [f"{shape} add(p0, p1)"]
    for number in range(1, length):
        lines.append(f"{shape} {('multiply', 'subtract', 'maximum')[number % 3]}(v{number - 1}, p{number % 2})")
    named = [f"v{number} = {line}" for number, line in enumerate(lines[:-1])]
    return [f32(*sizes)] * 2, "\n".join(named + lines[-1:])


def small_kernels(count):
    """Instructions that each need a kernel of their own: products of what another one made."""
    lines = [f"v{number} = f32[16,16] transpose({'p0' if number == 0 else f'product{number - 1}'}), dimensions={{1,0}}\n"
             f"product{number} = f32[16,16] dot(v{number}, p0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
             for number in range(count // 2)]
    return [("f32", [16, 16], -0.1, 0.1)], "\n".join(lines) + f"\nf32[16,16] negate(product{count // 2 - 1})"


def reshapes():
    """Transposes between reshapes that divide the elements in other ways."""
    return [f32(600, 1001)], """a = f32[1001,600] transpose(p0), dimensions={1,0}
b = f32[1050,572] reshape(a)
c = f32[572,1050] transpose(b), dimensions={1,0}
d = f32[650,924] reshape(c)
f32[924,650] transpose(d), dimensions={1,0}"""


def repeated(state, condition, body, initial):
    index = state.split("f32", 1)[1].rstrip(")")
    return [f32(*initial)], f"""start = s32[] constant(0)
state = {state} tuple(start, p0)
end = {state} while(state), condition={condition}, body={body}
f32{index} get-tuple-element(end), index=1"""


IDENTITY = """rows = s32[{n},{n}] iota(), iota_dimension=0
columns = s32[{n},{n}] iota(), iota_dimension=1
diagonal = pred[{n},{n}] compare(rows, columns), direction=EQ
ones = f32[{n},{n}] convert(diagonal)
count = f32[] constant({n})
counts = f32[{n},{n}] broadcast(count), dimensions={{}}
scaled = f32[{n},{n}] multiply(ones, counts)
square = f32[{n},{n}] add(p0, scaled)
"""


def factorisation(size, root):
    return [f32(size, size, low=0, high=0.1)], IDENTITY.format(n=size) + root


MILLION = f32(1024, 1024)
# name: parameters as (type, dimensions, low, high), called p0, p1 ...; and lines, of which the last is the root
OPERATIONS = {
    # Contractions.
    **{f"dot_{n}": dot((n, n), (n, n)) for n in (8, 16, 32, 64, 128, 256, 512, 1024, 2048)},
    "dot_transposed_left_512": dot((512, 512), (512, 512), (0, 0)),
    "dot_transposed_right_512": dot((512, 512), (512, 512), (1, 1)),
    "dot_f64_512": dot((512, 512), (512, 512), kind="f64"),
    "dot_f64_1x4096x1024": dot((1, 4096), (4096, 1024), kind="f64"),
    **{f"dot_{kind}_{m}x{k}x{n}" if (m, k) != (k, n) else f"dot_{kind}_{m}": dot((m, k), (k, n), kind=kind, result=result)
       for kind, result in (("bf16", "bf16"), ("f16", "f16"), ("s8", "s32"))
       for m, k, n in ((512, 512, 512), (1024, 1024, 1024), (128, 768, 3072), (1, 4096, 1024))},
    # Rows by features by features: small ones, and those of transformers.
    **{f"dot_{m}x{k}x{n}": dot((m, k), (k, n))
       for m, k, n in ((8, 400, 10), (512, 512, 2), (1, 768, 3072), (1, 4096, 1024), (2, 4096, 1024), (8, 768, 768),
                       (8, 1024, 1024), (16, 256, 768), (128, 768, 3072), (128, 3072, 768), (196, 768, 3072),
                       (128, 2048, 5632))},
    "matrix_vector_2k": ([f32(2048, 2048), f32(2048)], "f32[2048] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "vector_matrix_2k": ([f32(2048), f32(2048, 2048)], "f32[2048] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "batched_dot_64": ([f32(32, 64, 64)] * 2,
                       "f32[32,64,64] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
    "conv_3x3_56": convolution((1, 56, 56, 64), (3, 3, 64, 64), (1, 56, 56, 64), "size=3x3 pad=1_1x1_1"),
    "conv_3x3_7": convolution((1, 7, 7, 512), (3, 3, 512, 512), (1, 7, 7, 512), "size=3x3 pad=1_1x1_1"),
    "conv_7x7_224": convolution((1, 224, 224, 3), (7, 7, 3, 64), (1, 112, 112, 64), "size=7x7 stride=2x2 pad=3_2x3_2"),
    "conv_1x1_56": convolution((1, 56, 56, 64), (1, 1, 64, 256), (1, 56, 56, 256), "size=1x1"),
    "conv_dilated_28": convolution((1, 28, 28, 64), (3, 3, 64, 64), (1, 28, 28, 64), "size=3x3 pad=2_2x2_2 rhs_dilate=2x2"),
    "conv_depthwise_112": convolution((1, 112, 112, 32), (3, 3, 1, 32), (1, 112, 112, 32), "size=3x3 pad=1_1x1_1", more=", feature_group_count=32"),
    "conv_depthwise_14": convolution((1, 14, 14, 384), (3, 3, 1, 384), (1, 14, 14, 384), "size=3x3 pad=1_1x1_1", more=", feature_group_count=384"),
    "conv_kernel_gradient": convolution((8, 32, 32, 32), (8, 32, 32, 32), (3, 3, 32, 32), "size=32x32 pad=1_1x1_1", "f01b_i01o->01bf"),
    "conv_channels_first_7x7_224": convolution((1, 3, 224, 224), (64, 3, 7, 7), (1, 64, 112, 112), "size=7x7 stride=2x2 pad=3_2x3_2", "bf01_oi01->bf01"),
    "conv_channels_first_3x3_28": convolution((8, 32, 28, 28), (32, 32, 3, 3), (8, 32, 28, 28), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "conv_channels_first_patches": convolution((8, 3, 64, 64), (96, 3, 8, 8), (8, 96, 8, 8), "size=8x8 stride=8x8", "bf01_oi01->bf01"),
    "conv_to_3_features_64": convolution((1, 64, 64, 64), (3, 3, 64, 3), (1, 64, 64, 3), "size=3x3 pad=1_1x1_1"),
    "conv_channels_first_kernel_gradient": convolution((8, 24, 16, 16), (8, 24, 16, 16), (24, 24, 3, 3), "size=16x16 pad=1_1x1_1", "fb01_io01->fb01"),
    "conv_channels_first_strided_kernel_gradient": convolution((8, 24, 16, 16), (8, 48, 8, 8), (48, 24, 3, 3), "size=8x8 pad=0_1x0_1 rhs_dilate=2x2", "fb01_io01->fb01"),
    "conv_input_gradient": convolution((1, 28, 28, 64), (3, 3, 64, 64), (1, 56, 56, 64), "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f"),
    "attention_128": attention(128),
    "attention_512": attention(512),
    "attention_1024": attention(1024),
    "attention_1024_bf16": attention(1024, "bf16"),
    "attention_1024_causal": attention(1024, is_causal=True),
    "attention_4096": attention(4096),
    # Rows.
    "softmax_1k": softmax(1024, 1024),
    "softmax_rows_of_64": softmax(8192, 64),
    "layer_norm_768": layer_norm(1024, 768),
    "reduce_rows_1m": ([MILLION], "zero = f32[] constant(0)\nf32[1024] reduce(p0, zero), dimensions={1}, to_apply=sum"),
    "reduce_columns_1m": ([MILLION], "zero = f32[] constant(0)\nf32[1024] reduce(p0, zero), dimensions={0}, to_apply=sum"),
    "reduce_all_1m": ([MILLION], "zero = f32[] constant(0)\nf32[] reduce(p0, zero), dimensions={0,1}, to_apply=sum"),
    "reduce_largest_1m": ([MILLION], "least = f32[] constant(-inf)\nf32[1024] reduce(p0, least), dimensions={1}, to_apply=largest"),
    "reduce_rows_of_3": ([f32(200000, 3)], "zero = f32[] constant(0)\nf32[200000] reduce(p0, zero), dimensions={1}, to_apply=product"),
    "reduce_rows_of_million": reduction((4, 1000000), 1),
    "reduce_columns_of_million": reduction((1000000, 4), 0),
    "reduce_largest_columns_1m": reduction((1024, 1024), 0, "largest", "-inf"),
    "reduce_middle": ([f32(64, 128, 128)], "zero = f32[] constant(0)\nf32[64,128] reduce(p0, zero), dimensions={1}, to_apply=sum"),
    "argmax_rows": arg_largest(1024, 1024, 1),
    "argmax_columns": arg_largest(1024, 1024, 0),
    "cumsum": cumulative("sum", 0),
    "cumprod": cumulative("product", 1),
    "cummax": cumulative("largest", "-inf"),
    "cumsum_1m": cumulative("sum", 0, (1048576,), 0),
    "cumsum_columns": cumulative("sum", 0, (4096, 64), 0),
    "cumsum_wide_columns": cumulative("sum", 0, (1024, 1024), 0),
    "cumsum_reversed": cumulative("sum", 0, is_reversed=True),
    "cumsum_columns_reversed": cumulative("sum", 0, (4096, 64), 0, is_reversed=True),
    "cummax_columns": cumulative("largest", "-inf", (4096, 64), 0),
    "pool_2x2": ([f32(1, 256, 256, 16)], "zero = f32[] constant(0)\nf32[1,128,128,16] reduce-window(p0, zero), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=sum"),
    "pool_3x3": ([f32(1, 112, 112, 64)], "least = f32[] constant(-inf)\nf32[1,56,56,64] reduce-window(p0, least), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, to_apply=largest"),
    # Data that is moved.
    "copy_1m": ([MILLION], "f32[1024,1024] copy(p0)"),
    "copy_16m": ([f32(4096, 4096)], "f32[4096,4096] copy(p0)"),
    "transpose_1m": transpose([1024, 1024], (1, 0)),
    "transpose_f64_1m": transpose([1024, 1024], (1, 0), "f64"),
    "transpose_s8_1m": transpose([1024, 1024], (1, 0), "s8"),
    "transpose_3d_021": transpose([64, 128, 128], (0, 2, 1)),
    "transpose_3d_210": transpose([128, 64, 128], (2, 1, 0)),
    "transpose_3d_102": transpose([128, 64, 128], (1, 0, 2)),
    "transpose_heads": transpose([8, 128, 12, 64], (0, 2, 1, 3)),
    "transpose_channels_first": transpose([8, 56, 56, 64], (0, 3, 1, 2)),
    "transpose_channels_last": transpose([8, 64, 56, 56], (0, 2, 3, 1)),
    "transpose_channels_of_3": transpose([4, 224, 224, 3], (0, 3, 1, 2)),
    "reshapes_misaligned": reshapes(),
    "reverse": ([MILLION], "f32[1024,1024] reverse(p0), dimensions={1}"),
    "pad": ([f32(8, 56, 56, 64), f32()], "f32[8,58,58,64] pad(p0, p1), padding=0_0x1_1x1_1x0_0"),
    "pad_2d": ([f32(1000, 1000), f32()], "f32[1024,1024] pad(p0, p1), padding=12_12x12_12"),
    "concatenate": ([f32(1024, 512)] * 2, "f32[1024,1024] concatenate(p0, p1), dimensions={1}"),
    "pad_rows": ([f32(1000, 1024), f32()], "f32[1024,1024] pad(p0, p1), padding=12_12x0_0"),
    "concatenate_rows": ([f32(512, 1024)] * 2, "f32[1024,1024] concatenate(p0, p1), dimensions={0}"),
    "roll": roll((1024, 1024), 1, 7),
    "roll_rows": roll((1024, 1024), 0, 7),
    "dynamic_update_slice": ([MILLION, f32(1024, 256), s32(high=700)],
                             "zero = s32[] constant(0)\nf32[1024,1024] dynamic-update-slice(p0, p1, zero, p2)"),
    "dynamic_slice": ([MILLION, s32(high=500)],
                      "zero = s32[] constant(0)\nf32[512,1024] dynamic-slice(p0, p1, zero), dynamic_slice_sizes={512,1024}"),
    "slice": ([MILLION], "f32[1000,1000] slice(p0), slice={[12:1012], [12:1012]}"),
    "slice_strided": ([f32(1024, 2048)], "f32[1024,1024] slice(p0), slice={[0:1024], [0:2048:2]}"),
    "broadcast_rows": ([f32(1024)], "f32[1024,1024] broadcast(p0), dimensions={0}"),
    "gather_rows": ([f32(4096, 256), s32(1024, 1, high=4095)],
                    "f32[1024,256] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                    "index_vector_dim=1, slice_sizes={1,256}"),
    "gather_rows_of_8": ([f32(4096, 8), s32(16384, 1, high=4095)],
                         "f32[16384,8] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                         "index_vector_dim=1, slice_sizes={1,8}"),
    "gather_scalars": ([f32(65536), s32(262144, 1, high=65535)],
                       "f32[262144] gather(p0, p1), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
                       "index_vector_dim=1, slice_sizes={1}"),
    "scatter_rows": ([f32(4096, 256), s32(1024, 1, high=4095), f32(1024, 256)],
                     "f32[4096,256] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
                     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"),
    "scatter_scalars": ([f32(65536), s32(65536, 1, high=65535), f32(65536)],
                        "f32[65536] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, "
                        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"),
    "segment_sum": ([s32(65536, 1, high=255), f32(65536, 16)],
                    "zero = f32[] constant(0)\nzeros = f32[256,16] broadcast(zero), dimensions={}\n"
                    "f32[256,16] scatter(zeros, p0, p1), update_window_dims={1}, inserted_window_dims={0}, "
                    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"),
    "segment_max": ([s32(65536, 1, high=255), f32(65536, 16)],
                    "least = f32[] constant(-inf)\nleasts = f32[256,16] broadcast(least), dimensions={}\n"
                    "f32[256,16] scatter(leasts, p0, p1), update_window_dims={1}, inserted_window_dims={0}, "
                    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=largest"),
    "scatter_windows": ([f32(512, 512), s32(256, 2, high=496), f32(256, 16, 16)],
                        "f32[512,512] scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, "
                        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=sum"),
    "gather_windows": ([f32(512, 512), s32(256, 2, high=496)],
                       "f32[256,16,16] gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, "
                       "index_vector_dim=1, slice_sizes={16,16}"),
    # Elementwise.
    "add_1m": ([MILLION] * 2, "f32[1024,1024] add(p0, p1)"),
    "add_bf16_1m": elementwise("add", kind="bf16", operands=2),
    "multiply_s8_1m": elementwise("multiply", -9, 9, "s8", 2),
    "chain_of_16": chain(16, [1024, 1024]),
    **functions("f32"),
    **functions("f64"),
    "exp_bf16_1m": elementwise("exponential", kind="bf16"),
    "tanh_f16_1m": elementwise("tanh", kind="f16"),
    "divide_s32_1m": ([s32(1024, 1024, high=999), s32(1024, 1024, low=1, high=99)], "s32[1024,1024] divide(p0, p1)"),
    "popcount_1m": ([s32(1024, 1024, high=999999)], "s32[1024,1024] popcnt(p0)"),
    "convert_bf16_1m": ([MILLION], "bf16[1024,1024] convert(p0)"),
    "convert_f16_1m": ([MILLION], "f16[1024,1024] convert(p0)"),
    "convert_s8_1m": ([("s8", [1024, 1024], -9, 9)], "f32[1024,1024] convert(p0)"),
    "complex_multiply_1m": elementwise("multiply", kind="c64", operands=2),
    # Libraries.
    "sort_64k": ([f32(65536)], "f32[65536] sort(p0), dimensions={0}, to_apply=less"),
    "sort_rows_of_9": ([f32(65536, 9)], "f32[65536,9] sort(p0), dimensions={1}, to_apply=less"),
    "sort_rows_of_1000": ([f32(256, 1000)], "f32[256,1000] sort(p0), dimensions={1}, to_apply=less"),
    "sort_columns": ([f32(100, 1000)], "f32[100,1000] sort(p0), dimensions={0}, to_apply=less"),
    "argsort_64k": ([f32(65536)],
                    "places = s32[65536] iota(), iota_dimension=0\n"
                    "both = (f32[65536], s32[65536]) sort(p0, places), dimensions={0}, is_stable=true, to_apply=less_of_pairs\n"
                    "s32[65536] get-tuple-element(both), index=1"),
    "sort_s32_64k": ([s32(65536, high=1 << 30)], "s32[65536] sort(p0), dimensions={0}, to_apply=less_of_integers"),
    "sort_by_two_keys": ([f32(65536), s32(65536, high=9)],
                         "places = s32[65536] iota(), iota_dimension=0\n"
                         "all = (f32[65536], s32[65536], s32[65536]) sort(p0, p1, places), dimensions={0}, is_stable=true, "
                         "to_apply=less_of_two_keys\ns32[65536] get-tuple-element(all), index=2"),
    "top_1_of_1k": ([f32(256, 1024)], "both = (f32[256,1], s32[256,1]) topk(p0), k=1, largest=true\nf32[256,1] get-tuple-element(both), index=0"),
    "top_50_of_1k": ([f32(256, 1024)], "both = (f32[256,50], s32[256,50]) topk(p0), k=50, largest=true\nf32[256,50] get-tuple-element(both), index=0"),
    "top_8_of_1k": ([f32(256, 1024)], "both = (f32[256,8], s32[256,8]) topk(p0), k=8, largest=true\nf32[256,8] get-tuple-element(both), index=0"),
    "top_40_of_50k": ([f32(4, 50000)], "both = (f32[4,40], s32[4,40]) topk(p0), k=40, largest=true\nf32[4,40] get-tuple-element(both), index=0"),
    "fft_4k": ([("c64", [64, 4096], -1, 1)], "c64[64,4096] fft(p0), fft_type=FFT, fft_length={4096}"),
    "fft_1000": ([("c64", [64, 1000], -1, 1)], "c64[64,1000] fft(p0), fft_type=FFT, fft_length={1000}"),
    "fft_real_512": ([f32(256, 512)], "c64[256,257] fft(p0), fft_type=RFFT, fft_length={512}"),
    "fft_2d_256": ([("c64", [256, 256], -1, 1)], "c64[256,256] fft(p0), fft_type=FFT, fft_length={256,256}"),
    "fft_3d_48": ([("c64", [48, 48, 48], -1, 1)], "c64[48,48,48] fft(p0), fft_type=FFT, fft_length={48,48,48}"),
    "cholesky_128": factorisation(128, "f32[128,128] cholesky(square), lower=true"),
    "cholesky_512": factorisation(512, "f32[512,512] cholesky(square), lower=true"),
    "triangular_solve_256": factorisation(256, "f32[256,256] triangular-solve(square, p0), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"),
    "lu_256": factorisation(256, 'all = (f32[256,256], s32[256], s32[]) custom-call(square), custom_call_target="lapack_sgetrf_ffi", '
                                 'operand_layout_constraints={f32[256,256]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={}\n'
                                 "f32[256,256] get-tuple-element(all), index=0"),
    "qr_256": factorisation(256, 'all = (f32[256,256], f32[256]) custom-call(square), custom_call_target="lapack_sgeqrf_ffi", '
                                 'operand_layout_constraints={f32[256,256]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={}\n'
                                 "f32[256,256] get-tuple-element(all), index=0"),
    "random_bits_1m": ([("u64", [2], 1, 99)], "both = (u64[2], u32[1024,1024]) rng-bit-generator(p0), algorithm=rng_philox\nu32[1024,1024] get-tuple-element(both), index=1"),
    "random_threefry_1m": ([("u64", [2], 1, 99)], "both = (u64[2], u32[1024,1024]) rng-bit-generator(p0), algorithm=rng_three_fry\nu32[1024,1024] get-tuple-element(both), index=1"),
    # Small programs.
    "one_element": ([f32(1)], "f32[1] negate(p0)"),
    "chain_of_500": chain(500, [16]),
    "small_kernels_500": small_kernels(500),
    "while_of_10000": repeated("(s32[], f32[8])", "counting_condition", "counting_body", (8,)),
    "while_updates_rows": repeated("(s32[], f32[1024,256])", "update_condition", "update_body", (1024, 256)),
}


def bytes_moved(parameters, root):
    """Of the arrays that a program reads and writes."""
    widths = {"pred": 1, "s8": 1, "bf16": 2, "f16": 2, "f64": 8, "u64": 8, "c64": 8}
    kind, sizes = root.split("]")[0].split("[")
    shapes = [(kind, dimensions) for kind, dimensions, _, _ in parameters] + [(kind, [int(size) for size in sizes.split(",") if size])]
    return sum(widths.get(kind, 4) * math.prod(dimensions) for kind, dimensions in shapes)


def write_programs(folder):
    """Writes NAME.hlo and NAME.json of every operation into a folder."""
    for name, (parameters, text) in OPERATIONS.items():
        lines = [
            f"  p{number} = {kind}[{','.join(map(str, dimensions))}] parameter({number})"
            for number, (kind, dimensions, _, _) in enumerate(parameters)
        ]
        *before, root = text.split("\n")
        lines += [f"  {line}" for line in before]
        text = f"HloModule {name}\n{COMPUTATIONS}\nENTRY e {{\n" + "\n".join(lines) + f"\n  ROOT r = {root}\n}}\n"
        (folder / f"{name}.hlo").write_text(text)
        description = [
            {"name": f"p{number}", "shape": dimensions, "dtype": kind, "fill": {"lo": low, "hi": high}}
            for number, (kind, dimensions, low, high) in enumerate(parameters)
        ]
        content = {"parameters": description, "bytes": bytes_moved(parameters, root)}
        (folder / f"{name}.json").write_text(json.dumps(content))
