#!/usr/bin/env bash
# Makes the Python wheel, and prints where it is. Usage: wheel.sh [release|debug]
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
target=${CARGO_TARGET_DIR:-$PWD/target}
executorch=$(scripts/executorch.sh)
cargo build --quiet --package etvk-capi $([ "$profile" = debug ] || echo --release) >&2
scripts/ffi.sh build "$executorch" "$profile" >&2
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
library=$(mktemp)
trap 'rm -f "$library"' EXIT
strip --strip-unneeded -o "$library" "$target/$profile/libexecutorch_backend_vulkan.so"
python3 ffi/python/build.py "$library" "$version" "$executorch" "$target/wheel"
