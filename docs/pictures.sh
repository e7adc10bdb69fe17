#!/bin/sh
# Makes the pictures of the book: ./x pictures. Needs Chromium (Debian: apt-get install chromium).
# usage: pictures.sh HLO-OPT; fails if the pages' script does.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# picture NAME VIEW-AND-SEARCH
picture() {
    chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,760 \
        --virtual-time-budget=4000 --enable-logging=stderr --user-data-dir="$work/browser" \
        --screenshot="$root/docs/images/$1.png" "file://$work/page.html#$2" 2>"$work/log" >/dev/null
    if grep CONSOLE "$work/log"; then
        echo "error: the page's script complains" >&2
        exit 1
    fi
}

"$1" "$root/test-files/models/mnist_mlp_sgd.hlo" --emit=html -o "$work/page.html"
picture page-graph 'graph?search=exponential'
picture page-memory 'memory'
