#!/usr/bin/env bash
# Installs what a make target needs and this machine lacks. Says nothing and needs no network when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
usage: scripts/setup.sh GROUP...
groups:
  build   Rust and a C compiler
  demo    build, and dig to try it
  test    build, the clients and tools that the tests drive, and Knot to compare answers with
  bench   test, and the DNS servers to compare with
  instructions  build, valgrind, and gungraun-runner (instruction counts)
  isp     npm and Python, to derive the ISP tables
Debian and Ubuntu packages are installed with apt-get, as root or through sudo. Elsewhere the missing ones are named.
TEXT
}

# What counts as there = Debian package. With a slash it is a file pattern, else a command.
build=(cc=gcc)
demo=(dig=bind9-dnsutils)
test=(
    dig=bind9-dnsutils kdig=knot-dnsutils curl=curl ip=iproute2 nft=nftables
    openssl=openssl python3=python3 valgrind=valgrind
    knotd=knot zonemaster-cli=zonemaster-cli
)
bench=(
    knotd=knot '/usr/lib/*/knot/modules-*/geoip.so=knot-module-geoip'
    nsd=nsd gdnsd=gdnsd
    pdns_server=pdns-server '/usr/lib/*/pdns/libgeoipbackend.so=pdns-backend-geoip'
    '/usr/lib/*/pdns/liblua2backend.so=pdns-backend-lua2'
    dnsperf=dnsperf
)
instructions=(valgrind=valgrind)
isp=(npm=npm python3=python3)
# Debian starts these when it installs them; the benches start their own.
services=(knot nsd gdnsd pdns)

main() {
    [ $# -gt 0 ] || { usage; exit 2; }
    local wanted=() group
    for group in "$@"; do
        case $group in
            build) wanted+=("${build[@]}") ;;
            demo) wanted+=("${build[@]}" "${demo[@]}") ;;
            test) wanted+=("${build[@]}" "${test[@]}") ;;
            bench) wanted+=("${build[@]}" "${test[@]}" "${bench[@]}") ;;
            instructions) wanted+=("${build[@]}" "${instructions[@]}") ;;
            isp) wanted+=("${isp[@]}") ;;
            -h | --help) usage; exit 0 ;;
            *) echo "scripts/setup.sh: no group \`$group\`" >&2; usage >&2; exit 2 ;;
        esac
    done
    local packages
    mapfile -t packages < <(missing "${wanted[@]}")
    [ ${#packages[@]} = 0 ] || install_packages "${packages[@]}"
    for group in "$@"; do
        case $group in
            build | demo | test | bench) need_rust ;;
            instructions) need_rust; need_gungraun_runner ;;
        esac
    done
}

# The packages of the entries that are not there.
missing() {
    local entry
    for entry in "$@"; do
        there "${entry%=*}" || echo "${entry##*=}"
    done | sort -u
}

there() {
    case $1 in
        */*) compgen -G "$1" >/dev/null ;;
        *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
    esac
}

install_packages() {
    command -v apt-get >/dev/null || fail "please install what Debian calls: $*"
    root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "please run as root: apt-get install $*"
        root=(sudo)
    fi
    echo "installing: $*"
    local absent log
    mapfile -t absent < <(absent_services)
    log=$(mktemp)
    # the package lists may be missing or old: one update, when the first try fails
    if ! apt install "$@" >"$log" 2>&1; then
        { apt update && apt install "$@"; } >"$log" 2>&1 || { tail -n 15 "$log" >&2; fail "apt-get could not install: $*"; }
    fi
    rm -f "$log"
    stop_services "${absent[@]}"
}

apt() {
    local options=(-q)
    [ "$1" = update ] || options+=(-y --no-install-recommends)
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" "$@" </dev/null
}

absent_services() {
    local service
    for service in "${services[@]}"; do
        unit_exists "$service" || echo "$service"
    done
}

# A service that this run brought must neither run nor start at boot; one that was there before is its owner's.
stop_services() {
    local service
    for service in "$@"; do
        unit_exists "$service" || continue
        if [ -d /run/systemd/system ]; then
            "${root[@]}" systemctl disable --now --quiet "$service" || echo "could not stop $service; please do" >&2
        elif [ -x "/etc/init.d/$service" ]; then
            "${root[@]}" "/etc/init.d/$service" stop >/dev/null 2>&1 || true
        fi
    done
}

unit_exists() {
    [ -e "/lib/systemd/system/$1.service" ]
}

need_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    command -v cargo >/dev/null || fail "Rust is missing: install $wanted or newer, https://rustup.rs"
    found=$(rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -1)" != "$wanted" ]; then
        fail "Rust $found is too old: $wanted or newer is needed, \`rustup update\`"
    fi
}

# Must be the very version of the library, so it goes beside the build and not among the user's commands.
need_gungraun_runner() {
    local version
    version=$(sed -n '/^name = "gungraun-runner"$/{n;s/version = "\(.*\)"/\1/p;}' Cargo.lock)
    [ -n "$version" ] || return 0
    [ "$(target/tools/bin/gungraun-runner --version 2>/dev/null | cut -d' ' -f2)" = "$version" ] && return 0
    echo "building gungraun-runner $version"
    cargo install --quiet --locked --root target/tools --version "$version" gungraun-runner
}

fail() {
    echo "scripts/setup.sh: $*" >&2
    exit 1
}

main "$@"
