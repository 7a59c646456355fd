#!/usr/bin/env bash
# Builds the ExecuTorch backend, the runner and the examples, and runs the examples.
# Usage: ffi.sh build|examples EXECUTORCH PROFILE
#   EXECUTORCH  folder of an unpacked or installed wheel
#   PROFILE     debug or release: which static library of crates/capi, built already
# What it builds is in target/PROFILE, beside the etvk command, which looks for it there; what it installs in target/ffi.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

what=${1:?build or examples}
executorch=${2:?folder of ExecuTorch}
profile=${3:?debug or release}
target=${CARGO_TARGET_DIR:-$PWD/target}
built=$target/$profile
build=$target/ffi/$profile
prefix=$target/ffi/install
program=tests/fixtures/format/delegate_inline.pte

configure() { # SOURCE BUILD PREFIXES OPTION…: quiet unless it fails
    local source=$1 folder=$2 prefixes=$3 log
    shift 3
    log=$(mktemp)
    cmake -S "$source" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefixes" "$@" >"$log" 2>&1 ||
        { cat "$log" && die "CMake could not configure $source"; }
    rm -f "$log"
    cmake --build "$folder" --parallel
}

build_backend() {
    configure ffi "$build" "$executorch" -DETVK_LIBRARY="$built/libetvk.a" -DETVK_BUILD_RUNNER=ON
    cp "$build/libexecutorch_backend_vulkan.so" "$build/runner/etvk-executorch-runner" "$built"
    cmake --install "$build" --prefix "$prefix" >/dev/null
    # Under another name, in the place beside a VulkanBackend.
    configure ffi "$build-etvk" "$executorch" -DETVK_LIBRARY="$built/libetvk.a" -DETVK_BACKEND_NAME=EtvkBackend
    local backends
    backends=$("$built/etvk-executorch-runner" --load "$built/libexecutorch_backend_vulkan.so" \
        --load "$build-etvk/libexecutorch_backend_etvk.so" "$program" </dev/null | tr -d '\0')
    [[ $backends == *"VulkanBackend EtvkBackend"* ]] || die "expected VulkanBackend and EtvkBackend, found $backends"
}

run_examples() {
    # Linkers that drop what nothing refers to are the rule on Ubuntu.
    configure ffi/examples/cpp "$target/ffi/cpp" "$prefix;$executorch" -DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed
    echo "C++:"
    "$target/ffi/cpp/example" "$program"
    if [ -e ffi/examples/c/Makefile ] || compgen -G 'ffi/examples/c/*.c' >/dev/null; then
        echo "C:"
        cc -std=c11 -Wall -Werror -Iffi/include ffi/examples/c/*.c -o "$target/ffi/c-example" -L"$built" -letvk \
            -Wl,-rpath,"$built"
        "$target/ffi/c-example" "$program"
    fi
}

case $what in
build) build_backend ;;
examples) run_examples ;;
*) die "unknown '$what': build or examples" ;;
esac
