#!/usr/bin/env bash
# Runs everything that checks the project. Usage: test.sh [cpu|gpu]
#   cpu  (default) format, lints, docs, the whole suite on lavapipe, the conformance suite there through three doors (the
#        Rust API, the C interface, ExecuTorch's runtime) and through the first and the last on SwiftShader, the examples of
#        the README
#   gpu  the suite, the conformance suite and the examples on this machine's own device
# The validation layers are on, and any message of theirs fails the run. Everything that can run does run; the
# last lines are the results.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

where=${1:-cpu}
case $where in cpu | gpu) ;; *) die "unknown place '$where': cpu or gpu" ;; esac
if [ "$where" = cpu ]; then scripts/setup.sh test || exit 1; else { scripts/setup.sh run && scripts/setup.sh backend; } || exit 1; fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
results=()
failed=

report() { # NAME STATUS [DETAIL]: one line of the summary; returns the status
    if [ "$2" -ne 0 ]; then failed=1; fi
    results+=("$(if [ "$2" -eq 0 ]; then echo ok; else echo FAILED; fi)  $1${3:+ ($3)}")
    return "$2"
}

step() { # NAME COMMAND…: runs it in view, keeps what it printed
    local name=$1 status
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$scratch/log"
    status=${PIPESTATUS[0]}
    report "$name" "$status"
    return "$status"
}

finish() {
    printf '\n== results\n'
    printf '%s\n' "${results[@]}"
    [ ! -s "$scratch/counts" ] || cat "$scratch/counts"
    [ -z "$failed" ]
    exit
}

# --- what the loader and the validation layer are told -----------------------------------------------------------

etvk=${CARGO_TARGET_DIR:-target}/debug/etvk
layer=VK_LAYER_KHRONOS_validation
validated=
if compgen -G '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json' >/dev/null; then
    validated=1
    # Messages go to standard output, whatever the program does with its own debug messenger.
    cat >"$scratch/vk_layer_settings.txt" <<'SETTINGS'
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.log_filename = stdout
khronos_validation.report_flags = error,warn
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.enable_message_limit = false
SETTINGS
    export VK_INSTANCE_LAYERS=$layer VK_LAYER_SETTINGS_PATH=$scratch/vk_layer_settings.txt
fi

use_driver() { export VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1; } # new loaders read the first, old ones the second

lavapipe() { # path of its manifest, this machine's architecture first
    local found
    found=$(find /usr/share/vulkan/icd.d /usr/local/share/vulkan/icd.d /etc/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | sort)
    [ -n "$found" ] || die "lavapipe's driver manifest was not found, though its package is installed"
    grep -m 1 "$(uname -m)" <<<"$found" || head -n 1 <<<"$found"
}

# Fails when the last step's output holds a validation message.
validation() { # NAME
    local messages
    [ -n "$validated" ] || return 0
    messages=$(grep -acE 'Validation (Error|Warning|Performance Warning)|VUID-|UNASSIGNED-|SYNC-HAZARD' "$scratch/log")
    report "$1: validation messages" "$((messages > 0))" "$messages"
}

# Counts that libtest printed in the last step, as one line.
count_tests() { # NAME
    awk -v name="$1" '/^test result: / { for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) p += $(i - 1); if ($i ~ /^failed/) f += $(i - 1); if ($i ~ /^ignored/) s += $(i - 1) } }
        END { printf "%s: %d passed, %d failed, %d skipped\n", name, p, f, s }' "$scratch/log" >>"$scratch/counts"
}

conformance() { # NAME OPTION…; the results also go to conformance-NAME.xml, beside the command
    local counts
    step "$1: conformance" "$etvk" conformance tests/fixtures --expected tests/expected-failures.toml \
        --junit "${etvk%/*}/conformance-$1.xml" "${@:2}"
    counts=$(grep -aoE '[0-9]+ passed, [0-9]+ failed(, [0-9]+ failed as expected)?' "$scratch/log" | tail -n 1)
    if [ -n "$counts" ]; then echo "$1: $counts" >>"$scratch/counts"; else report "$1: conformance has no summary line" 1; fi
    validation "$1: conformance"
}

# The ExecuTorch backend: built against the wheel, put beside the other doors, and used by the examples.
executorch() { # NAME
    local wheel
    wheel=$(scripts/executorch.sh)
    report "$1: ExecuTorch's wheel" $? || return
    step "$1: backend" scripts/ffi.sh build "$wheel" debug || return
    conformance "$1" --via rust,capi,executorch --etdump "$scratch/etdump"
    [ -n "$(grep -laF kernel_name -r "$scratch/etdump")" ]
    report "$1: kernel names in ETDumps" $?
    step "$1: harness" scripts/ffi.sh harness "$wheel" debug
    step "$1: examples" scripts/ffi.sh examples "$wheel" debug
    validation "$1: examples"
}

# A layer that is not loaded reports nothing: the loader has to say that it put it in.
layers_loaded() {
    VK_LOADER_DEBUG=layer "$etvk" conformance tests/fixtures \
        --filter '^format/delegate_inline$' >"$scratch/loader" 2>&1
    grep -aqE "Insert instance layer \"?$layer" "$scratch/loader"
}

# --- the run -----------------------------------------------------------------------------------------------------

if [ "$where" = cpu ]; then
    swiftshader=$(scripts/swiftshader.sh) || exit 1
    driver=$(lavapipe) || exit 1
    [ -n "$validated" ] || die "the validation layers were not found, though their package is installed"
    use_driver "$driver"
    step format cargo fmt --all --check
    step lints cargo clippy --workspace --all-targets -- -D warnings
    step README scripts/readme.sh
    RUSTDOCFLAGS='-D warnings' step docs cargo doc --workspace --no-deps
    device=lavapipe
else
    device=gpu
    [ -n "$validated" ] || echo "note: the validation layers are not installed here, so nothing checks for their messages"
fi

# One set of packages and features for every build below, so that nothing is compiled twice.
step build cargo build --workspace --all-targets || finish
step "$device: tests" cargo test --workspace --no-fail-fast
count_tests "$device"
validation "$device: tests"

if [ -n "$validated" ]; then
    layers_loaded
    report "$device: validation layer in use" $?
fi

executorch "$device"

if [ "$where" = cpu ]; then
    use_driver "$swiftshader"
    conformance swiftshader --via rust,executorch
fi
finish
