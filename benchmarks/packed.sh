#!/bin/sh
# Runs what `./x cuda --pack` packed, on a machine that has a GPU and neither a compiler nor cargo, and writes report.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)
platform=cuda report=$here/report.md limit=300

usage() {
    cat <<'END'
usage: ./run.sh [--platform=cuda[:NUMBER]] [--report FILE] [--limit SECONDS]

  --platform  which GPU; cuda-emulator for a pack that was made for it: then without rates
  --report    where the report goes (default: report.md beside this script)
  --limit     seconds for each family of cases, and for each model (default: 300)
END
}

while [ $# -gt 0 ]; do
    case $1 in
        --platform=*) platform=${1#--platform=} ;;
        --report) report=$2; shift ;;
        --limit) limit=$2; shift ;;
        --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
runner=$here/hlo-run-bundle
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
start=$(date +%s)
failed=0
say() { printf '%s\n' "$*" | tee -a "$report"; }

: >"$report"
say "# GPU report"
say ""
say "$(cat "$here/made-by.txt"), platform $platform."
if command -v nvidia-smi >/dev/null 2>&1; then
    say "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader)"
fi
say ""
say "## Values"
say ""
for family in "$here"/cases/*/; do
    timeout "$limit" "$runner" --platform="$platform" --cases "$family" >"$work/out" 2>&1
    status=$?
    # A process for the cases behind each that failed: the sums are of all.
    right=$(awk '$2 == "right" && $3 == "of" { right += $1; all += $4 } END { printf "%d right of %d", right, all }' "$work/out")
    say "- $(basename "$family"): $right"
    if [ $status != 0 ]; then
        failed=1
        [ $status = 124 ] && say "  stopped after $limit s"
        grep -v ' right of ' "$work/out" | head -n 20 | cut -c 1-300 | sed 's/^/  - FAILS: /' | tee -a "$report"
    fi
done

say ""
say "| model | result | load, ms | run, ms | device, ms |"
say "|---|---|--:|--:|--:|"
for model in "$here"/models/*/; do
    [ -d "$model" ] || continue
    name=$(basename "$model")
    runs=10
    [ "$platform" = cuda-emulator ] && runs=1
    timeout "$limit" "$runner" "$model/program.halo" --spec "$model/spec.json" --platform="$platform" --time --repeat $runs \
        >"$work/out" 2>&1
    case $? in
        0) result=agrees ;;
        124) result="stopped after $limit s"; [ "$platform" = cuda-emulator ] || failed=1 ;;
        *) result="FAILS: $(grep -m 1 -i 'error\|differs' "$work/out" | cut -c 1-200)"; failed=1 ;;
    esac
    time_of() { awk -v name="$1" '$1 == name { print $2; exit }' "$work/out"; }
    say "| $name | $result | $(time_of load) | $(time_of run) | $(time_of device) |"
done

if [ "$platform" != cuda-emulator ]; then
    say ""
    say "## Rates"
    say ""
    "$here/gpu_rates.sh" "$runner" "$platform" "$here/rates" >"$work/out" 2>&1 || failed=1
    say "$(cat "$work/out")"
fi
say ""
if [ $failed = 0 ]; then say "All of it is right."; else say "Something FAILS, see above."; fi
say "It took $((($(date +%s) - start + 59) / 60)) minutes."
exit $failed
