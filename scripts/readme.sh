#!/usr/bin/env bash
# Compares every block of the README that names a file, as in "<!-- ffi/examples/c/minimal.c -->", with that file: those
# are what the tests build and run.
set -euo pipefail
cd "$(dirname "$0")/.."

count=0
while read -r file; do
    block=$(awk -v mark="<!-- $file -->" '
        $0 == mark { found = 1; next }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside' README.md)
    diff <(echo "$block") "$file" >&2 || { echo "README.md and $file differ" >&2 && exit 1; }
    count=$((count + 1))
done < <(sed -n 's/^<!-- \(.*\) -->$/\1/p' README.md)
[ "$count" -gt 0 ] || { echo "README.md names no file" >&2 && exit 1; }
echo "$count blocks of the README are the files that they name"
