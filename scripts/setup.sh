#!/usr/bin/env bash
# Installs what this machine lacks. Usage: setup.sh [run|test|backend|shaders]
#   run      (default) build the command and run it on a Vulkan device, lavapipe if there is no other
#   test     also lavapipe, the validation layers, and what building the ExecuTorch backend takes
#   backend  only what building the ExecuTorch backend takes
#   shaders  what building the shader compiler needs (only to change a shader)
# Does nothing, and prints nothing, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

purpose=${1:-run}
case $purpose in run | test | backend | shaders) ;; *) die "unknown purpose '$purpose': run, test, backend or shaders" ;; esac

have_library() { { /sbin/ldconfig -p 2>/dev/null || true; } | grep -qF "$1"; }

manifests() { # PATTERN: Vulkan driver manifests of that name
    find /usr/share/vulkan/icd.d /usr/local/share/vulkan/icd.d /etc/vulkan/icd.d -name "$1" 2>/dev/null
}

has_gpu() { # a device node and a driver that is not a software one
    compgen -G '/dev/dri/renderD*' >/dev/null || compgen -G '/dev/nvidia[0-9]*' >/dev/null || return 1
    manifests '*.json' | grep -qvE '/lvp_icd[^/]*$'
}

check_rust() {
    local want have how
    how="get the current one with rustup (https://rustup.rs, or 'apt-get install rustup && rustup default stable' where packaged); Debian 12's own cargo is too old"
    command -v cargo >/dev/null || die "cargo is missing: $how"
    want=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    have=$(cargo --version | awk '{ print $2 }')
    [ "$(printf '%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ] ||
        die "cargo $have is too old, Rust $want or newer is needed: $how"
    [ "$purpose" = test ] || return 0
    cargo fmt --version >/dev/null 2>&1 || die "cargo fmt is missing: rustup component add rustfmt"
    cargo clippy --version >/dev/null 2>&1 || die "cargo clippy is missing: rustup component add clippy"
}

check_rust
command -v cc >/dev/null || apt_install "linking Rust programs" gcc libc6-dev

# The ExecuTorch backend, its examples, and the wheel that they are built against.
backend() {
    command -v c++ >/dev/null || apt_install "building the ExecuTorch backend" g++
    command -v cmake >/dev/null || apt_install "building the ExecuTorch backend" cmake
    command -v make >/dev/null || apt_install "building the ExecuTorch backend" make
    python3 -m pip --version >/dev/null 2>&1 || apt_install "fetching ExecuTorch's wheel" python3-pip
}

case $purpose in
run)
    have_library libvulkan.so.1 || apt_install "the Vulkan loader" libvulkan1
    has_gpu || [ -n "$(manifests 'lvp_icd*.json')" ] || apt_install "lavapipe, a Vulkan device on the CPU" mesa-vulkan-drivers
    ;;
test)
    have_library libvulkan.so.1 || apt_install "the Vulkan loader" libvulkan1
    [ -n "$(manifests 'lvp_icd*.json')" ] || apt_install "lavapipe, a Vulkan device on the CPU" mesa-vulkan-drivers
    [ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ] ||
        apt_install "Vulkan validation layers" vulkan-validationlayers
    backend
    ;;
backend)
    backend
    ;;
shaders)
    command -v c++ >/dev/null || apt_install "building shaderc" g++
    command -v cmake >/dev/null || apt_install "building shaderc" cmake
    command -v python3 >/dev/null || apt_install "building shaderc" python3
    ;;
esac
