"""Programs of one operation each, as HLO text with descriptions of their inputs."""
import json

REDUCER = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
"""

# name: parameters as (type, dimensions, low, high), and the root; parameters are p0, p1 ...
OPERATIONS = {
    "add_1m": ([("f32", [1024, 1024], -1, 1)] * 2, "f32[1024,1024] add(p0, p1)"),
    "exp_1m": ([("f32", [1024, 1024], -1, 1)], "f32[1024,1024] exponential(p0)"),
    "tanh_1m": ([("f32", [1024, 1024], -1, 1)], "f32[1024,1024] tanh(p0)"),
    "log_f64_1m": ([("f64", [1024, 1024], 1, 2)], "f64[1024,1024] log(p0)"),
    "convert_bf16_1m": ([("f32", [1024, 1024], -1, 1)], "bf16[1024,1024] convert(p0)"),
    "transpose_1m": ([("f32", [1024, 1024], -1, 1)], "f32[1024,1024] transpose(p0), dimensions={1,0}"),
    "reduce_rows_1m": ([("f32", [1024, 1024], -1, 1)], "f32[1024] reduce(p0, zero), dimensions={1}, to_apply=sum"),
    "reduce_columns_1m": ([("f32", [1024, 1024], -1, 1)], "f32[1024] reduce(p0, zero), dimensions={0}, to_apply=sum"),
    "reduce_all_1m": ([("f32", [1024, 1024], -1, 1)], "f32[] reduce(p0, zero), dimensions={0,1}, to_apply=sum"),
    "reduce_window_1m": ([("f32", [1, 256, 256, 16], -1, 1)],
                         "f32[1,128,128,16] reduce-window(p0, zero), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=sum"),
    "dot_64": ([("f32", [64, 64], -1, 1)] * 2, "f32[64,64] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "dot_512": ([("f32", [512, 512], -1, 1)] * 2, "f32[512,512] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "dot_bf16_512": ([("bf16", [512, 512], -1, 1)] * 2, "bf16[512,512] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "matrix_vector_2k": ([("f32", [2048, 2048], -1, 1), ("f32", [2048], -1, 1)],
                         "f32[2048] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "batched_dot_64": ([("f32", [32, 64, 64], -1, 1)] * 2,
                       "f32[32,64,64] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
    "convolution_3x3": ([("f32", [1, 56, 56, 64], -1, 1), ("f32", [3, 3, 64, 64], -1, 1)],
                        "f32[1,56,56,64] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    "gather_rows": ([("f32", [4096, 256], -1, 1), ("s32", [1024, 1], 0, 4095)],
                    "f32[1024,256] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                    "index_vector_dim=1, slice_sizes={1,256}"),
    "scatter_rows": ([("f32", [4096, 256], -1, 1), ("s32", [1024, 1], 0, 4095), ("f32", [1024, 256], -1, 1)],
                     "f32[4096,256] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
                     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"),
    "sort_64k": ([("f32", [65536], -1, 1)], "f32[65536] sort(p0), dimensions={0}, to_apply=less"),
    "fft_4k": ([("c64", [64, 4096], -1, 1)], "c64[64,4096] fft(p0), fft_type=FFT, fft_length={4096}"),
    "cholesky_128": ([("f32", [128, 128], 0, 0)], "f32[128,128] cholesky(identity), lower=true"),
}


def write_programs(folder):
    """Writes NAME.hlo and NAME.json of every operation into a folder."""
    for name, (parameters, root) in OPERATIONS.items():
        lines = [
            f"  p{number} = {kind}[{','.join(map(str, dimensions))}] parameter({number})"
            for number, (kind, dimensions, _, _) in enumerate(parameters)
        ]
        if "zero" in root:
            lines.append("  zero = f32[] constant(0)")
        if "identity" in root:
            lines += [
                "  rows = s32[128,128] iota(), iota_dimension=0",
                "  columns = s32[128,128] iota(), iota_dimension=1",
                "  diagonal = pred[128,128] compare(rows, columns), direction=EQ",
                "  ones = f32[128,128] convert(diagonal)",
                "  identity = f32[128,128] add(ones, p0)",
            ]
        text = f"HloModule {name}\n{REDUCER}\nENTRY e {{\n" + "\n".join(lines) + f"\n  ROOT r = {root}\n}}\n"
        (folder / f"{name}.hlo").write_text(text)
        description = [
            {"name": f"p{number}", "shape": dimensions, "dtype": kind, "fill": {"lo": low, "hi": high}}
            for number, (kind, dimensions, low, high) in enumerate(parameters)
        ]
        (folder / f"{name}.json").write_text(json.dumps({"parameters": description}))
