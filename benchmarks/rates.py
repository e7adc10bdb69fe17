"""Programs of one kernel each, or of a few, whose rates on a GPU are parts of what the GPU can do at best.

`PROGRAMS` gives of each its name, its text, the bytes that it must move, its multiply-adds, and the ceiling that it is compared
with, by the name that `hlo-run-bundle --ceilings` has for it. Run by itself, it writes them into a folder, as bundles where a
compiler is named, and `rates.txt` beside them.
"""
import argparse
import pathlib
import subprocess

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
MOST = "most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }"
LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }"


def module(name, entry, *computations):
    return "\n".join([f"HloModule {name}", *computations, "ENTRY main {", entry.strip("\n"), "}", ""])


def reduction(result, dimensions, shape="16384,4096"):
    return f"""
  x = f32[{shape}] parameter(0)
  z = f32[] constant(0)
  ROOT y = f32[{result}] reduce(x, z), dimensions={{{dimensions}}}, to_apply=add"""


def weights(shape, rows, dimension, kept):
    """Of scores `s`, what a softmax divides: `e` and `tb`."""
    return f"""
  low = f32[] constant(-inf)
  z = f32[] constant(0)
  m = f32[{rows}] reduce(s, low), dimensions={{{dimension}}}, to_apply=most
  mb = f32[{shape}] broadcast(m), dimensions={{{kept}}}
  d = f32[{shape}] subtract(s, mb)
  e = f32[{shape}] exponential(d)
  t = f32[{rows}] reduce(e, z), dimensions={{{dimension}}}, to_apply=add
  tb = f32[{shape}] broadcast(t), dimensions={{{kept}}}"""


SOFTMAX = f"""
  s = f32[16384,4096] parameter(0)
{weights("16384,4096", "16384", 1, 0)}
  ROOT w = f32[16384,4096] divide(e, tb)"""

NORM = """
  x = f32[16384,4096] parameter(0)
  z = f32[] constant(0)
  n = f32[] constant(4096)
  nb = f32[16384] broadcast(n), dimensions={}
  t = f32[16384] reduce(x, z), dimensions={1}, to_apply=add
  mean = f32[16384] divide(t, nb)
  mb = f32[16384,4096] broadcast(mean), dimensions={0}
  c = f32[16384,4096] subtract(x, mb)
  q = f32[16384,4096] multiply(c, c)
  u = f32[16384] reduce(q, z), dimensions={1}, to_apply=add
  v = f32[16384] divide(u, nb)
  r = f32[16384] rsqrt(v)
  rb = f32[16384,4096] broadcast(r), dimensions={0}
  ROOT y = f32[16384,4096] multiply(c, rb)"""

BATCHES = "lhs_batch_dims={0}, rhs_batch_dims={0}"


def attention(heads, size):
    """Heads of 4,096 queries and keys, each of so many features: two products."""
    shape, scores = f"{heads},4096,{size}", f"{heads},4096,4096"
    return f"""
  q = bf16[{shape}] parameter(0)
  k = bf16[{shape}] parameter(1)
  v = bf16[{shape}] parameter(2)
  s = f32[{scores}] dot(q, k), {BATCHES}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
{weights(scores, f"{heads},4096", 2, "0,1")}
  w = f32[{scores}] divide(e, tb)
  wn = bf16[{scores}] convert(w)
  o = f32[{shape}] dot(wn, v), {BATCHES}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"""


# With the gradient, five more products.
HEADS, SCORES = "64,4096,64", "64,4096,4096"
GRADIENT = f"""{attention(64, 64)}
  do = bf16[{HEADS}] parameter(3)
  g = f32[{SCORES}] dot(do, v), {BATCHES}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  gw = f32[{SCORES}] multiply(g, w)
  h = f32[64,4096] reduce(gw, z), dimensions={{2}}, to_apply=add
  hb = f32[{SCORES}] broadcast(h), dimensions={{0,1}}
  f = f32[{SCORES}] subtract(g, hb)
  ds = f32[{SCORES}] multiply(w, f)
  dn = bf16[{SCORES}] convert(ds)
  dq = f32[{HEADS}] dot(dn, k), {BATCHES}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  dk = f32[{HEADS}] dot(dn, q), {BATCHES}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  dv = f32[{HEADS}] dot(wn, do), {BATCHES}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT y = (f32[{HEADS}], f32[{HEADS}], f32[{HEADS}], f32[{HEADS}]) tuple(o, dq, dk, dv)"""

CONVOLUTION = """
  x = bf16[128,56,56,128] parameter(0)
  w = bf16[3,3,128,128] parameter(1)
  ROOT y = bf16[128,56,56,128] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"""


def matmul(operand, size, result=None, more=""):
    return f"""
  a = {operand}[{size},{size}] parameter(0)
  b = {operand}[{size},{size}] parameter(1)
  ROOT c = {result or operand}[{size},{size}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{more}"""


def f8(size):
    # Both operands along the contracted positions, as the instructions want them.
    return f"""
  a = f8e4m3fn[{size},{size}] parameter(0)
  b = f8e4m3fn[{size},{size}] parameter(1)
  ROOT c = bf16[{size},{size}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"""


CHAIN = "\n".join(
    ["  x0 = f32[1000] parameter(0)"]
    + [f"  y{n} = f32[1000] add(x{n}, x{n})\n  x{n + 1} = f32[1000] opt-barrier(y{n})" for n in range(64)]
    + ["  ROOT y = f32[1000] copy(x64)"]
)

MIB = 1 << 20
ROWS = 16384 * 4096 * 4


def programs():
    one = "  x = f32[67108864] parameter(0)\n  ROOT y = f32[67108864] negate(x)"
    yield "copy", module("copy", one), 512 * MIB, 0, "copy"
    two = "  x = bf16[134217728] parameter(0)\n  y = bf16[134217728] parameter(1)\n  ROOT z = bf16[134217728] add(x, y)"
    yield "add_bf16", module("add", two), 768 * MIB, 0, "copy"
    yield "rows", module("rows", reduction("16384", 1), ADD), ROWS, 0, "copy"
    yield "columns", module("columns", reduction("4096", 0), ADD), ROWS, 0, "copy"
    yield "all", module("all", reduction("", "0,1"), ADD), ROWS, 0, "copy"
    turned = "  x = f32[8192,8192] parameter(0)\n  ROOT y = f32[8192,8192] transpose(x), dimensions={1,0}"
    yield "transpose", module("transpose", turned), 512 * MIB, 0, "copy"
    yield "softmax", module("softmax", SOFTMAX, ADD, MOST), 2 * ROWS, 0, "copy"
    yield "norm", module("norm", NORM, ADD), 2 * ROWS, 0, "copy"
    scan = """
  x = f32[64,1048576] parameter(0)
  z = f32[] constant(0)
  ROOT y = f32[64,1048576] reduce-window(x, z), window={size=1x1048576 pad=0_0x1048575_0}, to_apply=add"""
    yield "scan", module("scan", scan, ADD), 512 * MIB, 0, "copy"
    order = "  x = f32[16777216] parameter(0)\n  ROOT y = f32[16777216] sort(x), dimensions={0}, to_apply=less"
    # Each of four passes reads twice and writes once; the least that one must move is once each way.
    yield "sort", module("sort", order, LESS), 128 * MIB, 0, "copy"
    cube = lambda size: size**3
    for operand, ceiling in [("bf16", "bf16"), ("f16", "f16"), ("f64", "f64")]:
        for size in [4096, 8192]:
            yield f"matmul_{operand}_{size}", module("matmul", matmul(operand, size)), 0, cube(size), f"vendor_{ceiling}_{size}"
    for size in [4096, 8192]:
        yield f"matmul_f32_{size}", module("matmul", matmul("f32", size)), 0, cube(size), "fma_f32"
        tf32 = matmul("f32", size, more=", algorithm=dot_tf32_tf32_f32")
        yield f"matmul_tf32_{size}", module("matmul", tf32), 0, cube(size), f"vendor_tf32_{size}"
        yield f"matmul_s8_{size}", module("matmul", matmul("s8", size, "s32")), 0, cube(size), f"vendor_s8_{size}"
        yield f"matmul_f8_{size}", module("matmul", f8(size)), 0, cube(size), "-"
    terms = 128 * 56 * 56 * 128 * 3 * 3 * 128
    yield "convolution_bf16", module("convolution", CONVOLUTION), 0, terms, "vendor_bf16_4096"
    product = 64 * 4096 * 4096 * 64
    for name, heads, size in [("attention", 64, 64), ("attention_128", 32, 128)]:
        entry = f"{attention(heads, size)}\n  ROOT y = bf16[{heads},4096,{size}] convert(o)"
        yield name, module("attention", entry, ADD, MOST), 0, 2 * product, "vendor_bf16_4096"
    yield "attention_gradient", module("attention", GRADIENT, ADD, MOST), 0, 7 * product, "vendor_bf16_4096"
    # What a launch costs: one kernel, and 64 that wait for each other.
    few = "  x = f32[1000] parameter(0)\n  ROOT y = f32[1000] add(x, x)"
    yield "launch_of_1", module("launch", few), 0, 0, "-"
    yield "launches_of_64", module("launches", CHAIN), 0, 0, "-"


def write(folder, compiler, platforms):
    """Writes the programs, as bundles where there is a compiler, and gives the names of those that it refuses."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, refused = [], []
    for name, text, moved, products, ceiling in programs():
        (folder / f"{name}.hlo").write_text(text)
        lines.append(f"{name} {moved} {products} {ceiling}\n")
        if compiler:
            bundle = [compiler, folder / f"{name}.hlo", "--emit=bundle", f"--bundle-for={platforms}", "-o", folder / f"{name}.halo"]
            run = subprocess.run(bundle, capture_output=True, text=True)
            if run.returncode:
                refused.append(f"{name}: {run.stderr.strip()}")
    (folder / "rates.txt").write_text("".join(lines))
    return refused


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hlo-opt", help="makes bundles")
    parser.add_argument("--platforms", default="cuda:sm_90a,cuda:sm_80", help="what for")
    options = parser.parse_args()
    for message in write(options.folder, options.hlo_opt, options.platforms):
        print(message)
