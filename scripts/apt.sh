# Sourced by the other scripts: one way to stop with a message, one way to install packages.
# shellcheck shell=bash

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Runs a command as root, silent unless it fails.
as_root() {
    local sudo=() log
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "root is needed to run '$*', and there is no sudo: run it as root, then try again"
        sudo=(sudo env DEBIAN_FRONTEND=noninteractive)
    fi
    log=$(mktemp)
    if ! DEBIAN_FRONTEND=noninteractive "${sudo[@]}" "$@" >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# Package lists are refreshed at most once a run, and only when something has to be fetched.
apt_lists_fresh=
apt_refresh() {
    [ -z "$apt_lists_fresh" ] || return 0
    as_root apt-get update -q || die "apt-get update failed (no network, or a package source that does not answer)"
    apt_lists_fresh=1
}

# apt_install WHY PACKAGE…: installs what is missing, says so on one line, does nothing otherwise.
apt_install() {
    local why=$1 package missing=()
    shift
    for package in "$@"; do
        # shellcheck disable=SC2016 # dpkg's own placeholder
        case "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" in
        installed) ;;
        *) missing+=("$package") ;;
        esac
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "needed for $why: ${missing[*]} (Debian's names); this system has no apt-get, so install them its own way"
    echo "setup: installing ${missing[*]} ($why)"
    apt_refresh
    as_root apt-get install -y -q --no-install-recommends "${missing[@]}" ||
        die "could not install ${missing[*]} ($why): no network, or not in this system's package sources" \
            "(Ubuntu has some in 'universe')"
}
