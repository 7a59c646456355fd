#!/usr/bin/env bash
# Tests the wheel in a fresh virtual environment. Usage: test-python.sh [release|debug]
# PYTHON is a Python that has torch and ExecuTorch 1.5.1 (default: python3); the environment borrows them from it, for
# they are large, and installs nothing else but the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

python=${PYTHON:-python3}
"$python" -c 'import torch, executorch' 2>/dev/null ||
    die "$python has no torch or no executorch: pip install torch executorch==1.5.1, or set PYTHON to a Python that has them"
wheel=$(scripts/wheel.sh "${1:-release}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder"
"$python" -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])' \
    >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
echo "wheel: $(basename "$wheel"), $(stat -c %s "$wheel") bytes"
"$folder/bin/python" -c 'import sys, torch, importlib.metadata as m
print("Python", sys.version.split()[0], "torch", torch.__version__, "executorch", m.version("executorch"))'
"$folder/bin/python" ffi/examples/python/main.py tests/fixtures/format/delegate_inline.pte
"$folder/bin/python" -m unittest -v ffi/python/tests/test_etvk.py
