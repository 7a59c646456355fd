#!/usr/bin/env bash
# Builds the ExecuTorch backend and the runner; builds and runs the examples; checks the harness with odd delegates.
# Usage: ffi.sh build|examples|harness EXECUTORCH PROFILE
#   EXECUTORCH  folder of an unpacked or installed wheel
#   PROFILE     debug or release: which static library of crates/capi, built already
# What it builds is in target/PROFILE, beside the etvk command, which looks for it there; what it installs in target/ffi.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

what=${1:?build, examples or harness}
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
    "$target/ffi/cpp/example" "$program"
    "$built/etvk" extract tests/fixtures/fork/aten_rms_norm_no_eps.pte "$target/ffi/norm"
    cc -std=c11 -Wall -Wextra -Werror ffi/examples/c/minimal.c -Iffi/include -L"$built" -letvk -Wl,-rpath,"$built" \
        -o "$target/ffi/minimal"
    "$target/ffi/minimal" "$target/ffi/norm/forward.0.vk"
}

# What a harness is for: bad delegates fail their cases and nothing else, and two can be put side by side.
check_harness() {
    local harness=("$built/etvk" conformance tests/fixtures --via executorch --filter '^format/delegate_inline$')
    local text status library=$target/ffi/aborts.so
    cc -shared -fPIC -x c - -o "$library" <<<'#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void start(void) { puts("a layer says so"); fflush(stdout); abort(); }'
    text=$("${harness[@]}" --delegate "$library" 2>&1) && die "a delegate that aborts passes"
    status=$?
    [[ $status -eq 1 && $text == *"signal: 6"*"0 passed, 1 failed"* ]] || die "an abort is told as ($status) $text"
    [[ $text == *"a layer says so"* ]] || die "what the delegate's process prints is lost: $text"
    text=$("${harness[@]}" --delegate "$target/none.so") && die "a delegate that is not there passes"
    [[ $text == *"none.so: "*"0 passed, 1 failed"* ]] || die "a missing delegate is told as $text"
    "${harness[@]}" --compare "$built/libexecutorch_backend_vulkan.so" --replay 3
    # A device that is not there is NotSupported: a request to load "forward", and the status of its answer.
    status=$(printf '\1\0\0\0\7\0\0\0forward' |
        "$built/etvk-executorch-runner" --load "$built/libexecutorch_backend_vulkan.so" --spec device=none "$program" \
            2>/dev/null | tail -c 12 | od -An -N4 -tu4)
    [ "$status" -eq 16 ] || die "a device that is not there is error $status"
}

case $what in
build) build_backend ;;
examples) run_examples ;;
harness) check_harness ;;
*) die "unknown '$what': build, examples or harness" ;;
esac
