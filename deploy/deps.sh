#!/bin/sh
# Install the Debian packages that a step needs, only those that are missing.
#   deps.sh build|test|container
# Asks for sudo where it is not root. Does nothing, and says nothing, when all is there.
set -eu

case "${1:?usage: deps.sh build|test|container}" in
build)
    packages="gcc libc6-dev make pkg-config libsqlite3-dev libevent-dev libprotobuf-c-dev \
protobuf-c-compiler libprotobuf-dev zlib1g-dev libssl-dev libpcre2-dev"
    ;;
test)
    packages="libcmocka-dev libjansson-dev nodejs npm sqlite3 curl clang"
    ;;
container)
    packages="debootstrap podman buildah curl"
    ;;
*)
    echo "deps.sh: unknown step '$1' (build, test or container)" >&2
    exit 64
    ;;
esac

# A tool that is there by other means than dpkg (node from elsewhere, say) counts as installed.
present() {
    case "$1" in
    gcc | make | curl | sqlite3 | clang | npm | debootstrap | podman | buildah)
        command -v "$1" >/dev/null 2>&1 && return 0 ;;
    nodejs) command -v node >/dev/null 2>&1 && return 0 ;;
    esac
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps.sh: no dpkg here; install by hand what these Debian packages hold: $packages" >&2
    exit 0
fi

missing=
for p in $packages; do
    present "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

echo "installing:$missing" >&2
sudo=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "deps.sh: not root and no sudo; as root run: apt-get install$missing" >&2
        exit 77
    fi
    sudo=sudo
fi
$sudo apt-get update -qq >&2
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
