#!/bin/sh
# Everything that a GPU is needed for, in one go, for a short loan of a machine: conformance, random programs and models for
# their values, then kernels of each family for their rates. `./x cuda` builds what it needs and runs it.
set -u

usage() {
    cat <<'END'
usage: ./x cuda [--emulator] [--values] [--report FILE] [--models DIR] [--limit SECONDS]
       ./x cuda --pack DIR [--cases N] [--models DIR] [--platforms PLATFORMS]
       ./x cuda --registers [--into FILE] CHIP[,CHIP...] [PROGRAM...]

  --emulator   on the GPU that the host plays: no rates, and only a sample of the cases
  --values     only whether values are right (./x test --cuda)
  --report     where the report goes (default: target/cuda-report.md)
  --models     programs with descriptions to run (default: $HALO_MODELS, or test-files/models)
  --limit      seconds for each model (default: 120)
  --pack       no GPU: what a machine with one needs, without a compiler there, into a folder and an archive, of which
               run.sh runs everything and writes a report
  --registers  no GPU: what the kernels of programs need of one, by NVIDIA's assembler ($HALO_PTXAS); without programs of
               all in $HALO_MODELS, and where a document is named, into its tables
END
}

bin=$1 runner=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
platform=cuda
report=$root/target/cuda-report.md
models=${HALO_MODELS:-$root/test-files/models}
limit=120
values_only=
while [ $# -gt 0 ]; do
    case $1 in
        --emulator) platform=cuda-emulator ;;
        --values) values_only=1 ;;
        --report) report=$2; shift ;;
        --models) models=$2; shift ;;
        --limit) limit=$2; shift ;;
        --pack)
            shift
            exec python3 "$root/benchmarks/pack.py" --hlo-opt "$bin/hlo-opt" --runner "$runner" "$@"
            ;;
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
    "$bin/hlo-run" "$work/first.halo" --random-inputs 1 --platform=$platform >"$work/out" 2>&1 &&
    "$runner" "$work/first.halo" --random-inputs 1 --platform=$platform >"$work/out" 2>&1; then
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

if [ $platform = cuda ] && [ -z "$values_only" ]; then
    say ""
    say "## Rates"
    say ""
    python3 "$root/benchmarks/rates.py" "$work/rates" --hlo-opt "$bin/hlo-opt" >"$work/out" 2>&1
    refused=$(cat "$work/out")
    [ -z "$refused" ] || { failed=1; say "Refused: $refused"; }
    "$root/benchmarks/gpu_rates.sh" "$runner" cuda "$work/rates" >"$work/out" 2>&1 || failed=1
    say "$(cat "$work/out")"
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
