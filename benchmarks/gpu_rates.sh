#!/bin/sh
# gpu_rates.sh RUNNER PLATFORM FOLDER: the rates of the bundles that `rates.py` wrote, as parts of what the GPU can do at best,
# as tables. Needs nothing but hlo-run-bundle and awk.
set -u
runner=$1 platform=$2 folder=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

if "$runner" --ceilings --platform="$platform" >"$work/ceilings" 2>"$work/error"; then
    echo "| what the GPU can do at best | GB/s, or TFLOP/s |"
    echo "|---|--:|"
    awk '{ printf "| %s | %.1f |\n", $1, $1 == "copy" ? $2 : $2 / 1000 }' "$work/ceilings"
else
    failed=1
    echo "What the GPU can do at best FAILS: $(cat "$work/error")"
fi
echo
echo "| kernel | device, ms | GB/s | TFLOP/s | of the best | host, µs |"
echo "|---|--:|--:|--:|--:|--:|"
while read -r name bytes products ceiling; do
    timeout 120 "$runner" "$folder/$name.halo" --random-inputs 1 --platform="$platform" --time --warm-up 3 --repeat 20 \
        >"$work/out" 2>&1
    status=$?
    if [ $status = 124 ]; then
        failed=1
        echo "| $name | stopped after 120 s | | | | |"
    elif [ $status != 0 ]; then
        failed=1
        echo "| $name | FAILS: $(head -n 1 "$work/out" | cut -c 1-200) | | | | |"
    else
        cp "$work/out" "$work/$name.out"
        awk -v name="$name" -v bytes="$bytes" -v products="$products" -v ceiling="$ceiling" '
            FILENAME ~ /ceilings$/ { best[$1] = $2; next }
            $1 == "device" { ms = $2 }
            $1 == "least" { host = $2 }
            END {
                if (!ms) { printf "| %s | no device works | | | | %.1f |\n", name, host * 1000; exit }
                gigabytes = bytes / ms / 1e6
                gigaflops = 2 * products / ms / 1e6
                own = bytes ? gigabytes : gigaflops
                part = best[ceiling] ? sprintf("%.0f %% of %s", 100 * own / best[ceiling], ceiling) : ""
                printf "| %s | %.4f | %s | %s | %s | %.1f |\n", name, ms, bytes ? sprintf("%.0f", gigabytes) : "",
                    products ? sprintf("%.1f", gigaflops / 1000) : "", part, host * 1000
            }' "$work/ceilings" "$work/out"
    fi
done <"$folder/rates.txt"
if [ -f "$work/launch_of_1.out" ] && [ -f "$work/launches_of_64.out" ]; then
    echo
    awk 'FILENAME ~ /launch_of_1.out$/ { if ($1 == "least") host = $2 * 1000; if ($1 == "launch") launch = $2 * 1000 }
        $1 == "device" && FILENAME ~ /launches_of_64.out$/ { device = $2 * 1000 / 64 }
        END {
            printf "A call of one kernel takes the host %.1f µs, of which %.1f are for launching it and the others for waiting; ", host, launch
            printf "a kernel in a graph takes %.2f µs.\n", device
        }' \
        "$work/launch_of_1.out" "$work/launches_of_64.out"
fi
exit $failed
