#!/bin/sh
# Everything that a GPU is needed for, in one go, for a short loan of a machine: conformance, random programs and models for
# their values, then kernels of each family for their rates. `./x cuda` builds what it needs and runs it.
set -u

usage() {
    cat <<'END'
usage: ./x cuda [--emulator] [--values] [--report FILE] [--models DIR] [--limit SECONDS]
       ./x cuda --registers [--into FILE] CHIP[,CHIP...] [PROGRAM...]

  --emulator   on the GPU that the host plays: no rates, and only a sample of the cases
  --values     only whether values are right (./x test --cuda)
  --report     where the report goes (default: target/cuda-report.md)
  --models     programs with descriptions to run (default: test-files/models)
  --limit      seconds for each model (default: 120)
  --registers  no GPU: what the kernels of programs need of one, by NVIDIA's assembler ($HALO_PTXAS); without programs of
               all in $HALO_MODELS, and where a document is named, into its tables
END
}

bin=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
platform=cuda
report=$root/target/cuda-report.md
models=$root/test-files/models
limit=120
values_only=
while [ $# -gt 0 ]; do
    case $1 in
        --emulator) platform=cuda-emulator ;;
        --values) values_only=1 ;;
        --report) report=$2; shift ;;
        --models) models=$2; shift ;;
        --limit) limit=$2; shift ;;
        --registers) shift; exec python3 "$root/benchmarks/registers.py" "$bin/hlo-opt" "$@" ;;
        --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done

start=$(date +%s)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%s\n' "$*" | tee -a "$report"; }

: >"$report"
say "# GPU report"
say ""
say "Commit $(git -C "$root" rev-parse --short HEAD 2>/dev/null), platform $platform."
if command -v nvidia-smi >/dev/null 2>&1; then
    say "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader)"
fi

failed=0

# One program first: without a driver nothing else says more.
cat >"$work/first.hlo" <<'END'
HloModule first
ENTRY main {
  x = f32[1000] parameter(0)
  ROOT y = f32[1000] add(x, x)
}
END
if ! "$bin/hlo-run" "$work/first.hlo" --random-inputs 1 --platform=$platform --compare interpreter >"$work/out" 2>&1; then
    say ""
    say "The first program does not run:"
    say "$(cat "$work/out")"
    exit 1
fi

say ""
say "## Values"
say ""
tests() {
    name=$1
    shift
    if (cd "$root" && env "$@" cargo test --release --workspace --test files -- "$name" >"$work/out" 2>&1); then
        say "- $name: $(grep 'test result' "$work/out" | tail -n 1)"
    else
        failed=1
        say "- $name FAILS: $(grep 'test result' "$work/out" | tail -n 1)"
        grep -A 5 -i 'fail' "$work/out" | head -n 60 >>"$report"
    fi
}
if [ $platform = cuda ]; then
    tests emulated HALO_GPU=cuda HALO_ALL_GPU_CASES=1 HALO_RANDOM_GPU_PROGRAMS=1000
else
    tests emulated HALO_RANDOM_GPU_PROGRAMS=50
fi

# A file for machines without a compiler.
if "$bin/hlo-opt" "$work/first.hlo" --emit=bundle --bundle-for=$platform -o "$work/first.halo" >"$work/out" 2>&1 &&
    "$bin/hlo-run" "$work/first.halo" --random-inputs 1 --platform=$platform >"$work/out" 2>&1; then
    say "- a bundle runs"
else
    failed=1
    say "- a bundle FAILS: $(head -n 3 "$work/out")"
fi

say ""
say "| model | result | run, ms | device, ms |"
say "|---|---|--:|--:|"
for spec in "$models"/*.json; do
    [ -f "$spec" ] || continue
    model=${spec%.json}
    program=$model.hlo
    [ -f "$program" ] || program=$model.hlo.gz
    runs=3
    [ $platform = cuda ] || runs=1
    timeout "$limit" "$bin/hlo-run" "$program" --spec "$spec" --platform=$platform --time --repeat $runs \
        >"$work/out" 2>&1
    status=$?
    # What GPUs do not do is refused, which is no mistake.
    if [ $status = 2 ] && grep -q 'among several devices' "$work/out"; then
        say "| $(basename "$model") | refused: its devices exchange values | | |"
        continue
    fi
    case $status in
        0) result=agrees ;;
        124) result="stopped after $limit s" ;;
        *) result="FAILS: $(grep -m 1 -i 'error\|differs' "$work/out" | cut -c 1-120)"; failed=1 ;;
    esac
    time_of() { awk -v name="$1" '$1 == name { print $2; exit }' "$work/out"; }
    say "| $(basename "$model") | $result | $(time_of run) | $(time_of device) |"
done

# Name, bytes moved, multiply-adds; the program follows.
rate() {
    name=$1 bytes=$2 products=$3
    cat >"$work/$name.hlo"
    "$bin/hlo-run" "$work/$name.hlo" --random-inputs 1 --platform=cuda --time --repeat 20 --output-dir "$work" \
        >"$work/out" 2>&1 || { say "| $name | FAILS | | |"; failed=1; return; }
    time=$(awk '$1 == "device" { print $2; exit }' "$work/out")
    say "$(awk -v name="$name" -v ms="$time" -v bytes="$bytes" -v products="$products" 'BEGIN {
        printf "| %s | %s | %.0f | %.2f |", name, ms, bytes / ms / 1e6, 2 * products / ms / 1e9 }')"
}

if [ $platform = cuda ] && [ -z "$values_only" ]; then
    say ""
    say "## Rates"
    say ""
    say "| kernel | device, ms | GB/s | TFLOP/s |"
    say "|---|--:|--:|--:|"
    add='add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }'
    rate copy 536870912 0 <<END
HloModule copy
ENTRY main { x = f32[67108864] parameter(0) ROOT y = f32[67108864] negate(x) }
END
    rate rows 268435456 0 <<END
HloModule rows
$add
ENTRY main { x = f32[16384,4096] parameter(0) z = f32[] constant(0) ROOT y = f32[16384] reduce(x, z), dimensions={1}, to_apply=add }
END
    rate columns 268435456 0 <<END
HloModule columns
$add
ENTRY main { x = f32[16384,4096] parameter(0) z = f32[] constant(0) ROOT y = f32[4096] reduce(x, z), dimensions={0}, to_apply=add }
END
    rate all 268435456 0 <<END
HloModule all
$add
ENTRY main { x = f32[67108864] parameter(0) z = f32[] constant(0) ROOT y = f32[] reduce(x, z), dimensions={0}, to_apply=add }
END
    rate transpose 536870912 0 <<END
HloModule transpose
ENTRY main { x = f32[8192,8192] parameter(0) ROOT y = f32[8192,8192] transpose(x), dimensions={1,0} }
END
    most='most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }'
    # Rows of $1, of which weights are made of scores: a softmax.
    softmax() {
        cat <<END
  low = f32[] constant(-inf)
  z = f32[] constant(0)
  m = f32[$2] reduce(s, low), dimensions={$3}, to_apply=most
  mb = f32[$1] broadcast(m), dimensions={$4}
  d = f32[$1] subtract(s, mb)
  e = f32[$1] exponential(d)
  t = f32[$2] reduce(e, z), dimensions={$3}, to_apply=add
  tb = f32[$1] broadcast(t), dimensions={$4}
END
    }
    rate softmax 536870912 0 <<END
HloModule softmax
$add
$most
ENTRY main {
  s = f32[16384,4096] parameter(0)
$(softmax 16384,4096 16384 1 0)
  ROOT w = f32[16384,4096] divide(e, tb)
}
END
    rate norm 536870912 0 <<END
HloModule norm
$add
ENTRY main {
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
  ROOT y = f32[16384,4096] multiply(c, rb)
}
END
    # 64 heads of 4,096 queries and keys: two products, and with the gradient five more.
    heads=64,4096,64
    scores=64,4096,4096
    batches='lhs_batch_dims={0}, rhs_batch_dims={0}'
    attention=$(cat <<END
  q = bf16[$heads] parameter(0)
  k = bf16[$heads] parameter(1)
  v = bf16[$heads] parameter(2)
  s = f32[$scores] dot(q, k), $batches, lhs_contracting_dims={2}, rhs_contracting_dims={2}
$(softmax $scores 64,4096 2 0,1)
  w = f32[$scores] divide(e, tb)
  wn = bf16[$scores] convert(w)
  o = f32[$heads] dot(wn, v), $batches, lhs_contracting_dims={2}, rhs_contracting_dims={1}
END
)
    rate attention 0 137438953472 <<END
HloModule attention
$add
$most
ENTRY main {
$attention
  ROOT y = bf16[$heads] convert(o)
}
END
    rate attention_gradient 0 481036337152 <<END
HloModule attention_gradient
$add
$most
ENTRY main {
$attention
  do = bf16[$heads] parameter(3)
  g = f32[$scores] dot(do, v), $batches, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  gw = f32[$scores] multiply(g, w)
  h = f32[64,4096] reduce(gw, z), dimensions={2}, to_apply=add
  hb = f32[$scores] broadcast(h), dimensions={0,1}
  f = f32[$scores] subtract(g, hb)
  ds = f32[$scores] multiply(w, f)
  dn = bf16[$scores] convert(ds)
  dq = f32[$heads] dot(dn, k), $batches, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  dk = f32[$heads] dot(dn, q), $batches, lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dv = f32[$heads] dot(wn, do), $batches, lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT y = (f32[$heads], f32[$heads], f32[$heads], f32[$heads]) tuple(o, dq, dk, dv)
}
END
    # What a launch costs: one kernel, and 64 that wait for each other.
    rate launch_of_1 0 0 <"$work/first.hlo"
    rate launches_of_64 0 0 <<END
HloModule launches
ENTRY main {
  x0 = f32[64,64] parameter(0)
$(seq 1 64 | while read -r n; do echo "  x$n = f32[64,64] dot(x$((n - 1)), x0), lhs_contracting_dims={1}, rhs_contracting_dims={0}"; done)
  ROOT y = f32[64,64] copy(x64)
}
END
    for type in f32 bf16; do
        rate "matmul_$type" 0 68719476736 <<END
HloModule matmul
ENTRY main {
  a = $type[4096,4096] parameter(0)
  b = $type[4096,4096] parameter(1)
  ROOT c = $type[4096,4096] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
END
    done
    say ""
    say "## Models, beside XLA where JAX has the platform"
    say ""
    say '```text'
    python=${XDG_CACHE_HOME:-$HOME/.cache}/halo/bench-venv/bin/python
    [ -x "$python" ] || python=python3
    "$python" "$root/benchmarks/compare.py" --halo "$bin/hlo-bench" --models "$models" --platform=cuda >"$work/out" 2>&1
    say "$(cat "$work/out")"
    say '```'
fi

say ""
if [ $failed = 0 ]; then say "All of it is right."; else say "Something FAILS, see above."; fi
say "It took $((($(date +%s) - start + 59) / 60)) minutes."
exit $failed
