#!/usr/bin/env bash
# Prints the folder of ExecuTorch's wheel, unpacked: headers, libexecutorch.so, CMake package. The wheel is downloaded to
# .cache/ once; nothing is installed, and the wheel's Python part is not used.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

version=1.5.1
folder=$PWD/.cache/executorch-$version
if [ ! -e "$folder/executorch/lib/libexecutorch.so" ]; then
    rm -rf "$folder.part"
    mkdir -p "$folder.part"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$folder.part" \
        "executorch==$version" >&2 ||
        die "pip could not download executorch $version (no network, or no wheel for this Python and machine)"
    python3 -m zipfile -e "$folder.part"/executorch-*.whl "$folder.part"
    rm "$folder.part"/executorch-*.whl
    rm -rf "$folder"
    mv "$folder.part" "$folder"
fi
echo "$folder/executorch"
