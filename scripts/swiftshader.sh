#!/usr/bin/env bash
# Puts SwiftShader, the plainest Vulkan device there is, into .cache/swiftshader (nothing is installed).
# It comes out of Debian's package of Chromium, or out of a Chromium or Chrome that is already here.
# Prints the path of its driver manifest.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

files=(libvk_swiftshader.so vk_swiftshader_icd.json)
target=$PWD/.cache/swiftshader

complete() { [ -s "$1/${files[0]}" ] && [ -s "$1/${files[1]}" ]; }

# Files appear under their final name only when whole, so an interrupted run is simply repeated.
take() { # FOLDER
    local file
    mkdir -p "$target"
    for file in "${files[@]}"; do
        cp "$1/$file" "$target/$file.part"
        mv "$target/$file.part" "$target/$file"
    done
}

from_browser() {
    local folder
    for folder in /usr/lib/chromium /usr/lib/chromium-browser /opt/google/chrome /snap/chromium/current/usr/lib/chromium-browser; do
        if complete "$folder"; then
            take "$folder"
            return 0
        fi
    done
    return 1
}

from_package() { # PACKAGE: fetched and unpacked in a temporary folder
    local found
    rm -f "$scratch"/*.deb
    (cd "$scratch" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "$1") >"$scratch/log" 2>&1 || return 1
    dpkg-deb --fsys-tarfile "$scratch"/*.deb |
        tar -x -C "$scratch" --wildcards "*/${files[0]}" "*/${files[1]}" 2>>"$scratch/log" || return 1
    found=$(find "$scratch" -name "${files[0]}" -printf '%h\n' -quit)
    complete "$found" || return 1
    take "$found"
}

# chromium-common since Debian 12's updates; chromium itself in older releases.
from_packages() { from_package chromium-common || from_package chromium; }

if ! complete "$target" && ! from_browser; then
    command -v apt-get >/dev/null ||
        die "no apt-get here to fetch SwiftShader with: put ${files[*]} (any Chromium has them) into .cache/swiftshader"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    echo "setup: fetching SwiftShader out of Debian's chromium package" >&2
    if ! from_packages; then
        apt_refresh
        from_packages || {
            tail -n 5 "$scratch/log" >&2
            die "SwiftShader could not be fetched: no network, or no real chromium package in this system's sources" \
                "(Ubuntu has none); put ${files[*]} of any Chromium into .cache/swiftshader"
        }
    fi
fi
echo "$target/${files[1]}"
