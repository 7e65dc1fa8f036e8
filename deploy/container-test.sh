#!/bin/bash
# Build deploy/Dockerfile and run the result, without a Docker engine: debootstrap makes the base
# image, buildah builds and runs (chroot isolation). Needs root, a Debian machine and its mirror.
#
#   make container-test        KEEP=1 leaves the work directory (the base image is most of the time)
#   OTLITE_CONTAINER_WORK=DIR  work there; a base image found there is used again
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "container-test: $*" >&2; }
die() {
    say "FAILED: $*"
    exit 1
}

if [ "$(id -u)" != 0 ]; then
    say "debootstrap and chroot isolation need root; run: sudo make container-test"
    exit 77
fi
deploy/deps.sh container

work=${OTLITE_CONTAINER_WORK:-}
if [ -z "$work" ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/otlite-container.XXXXXX")
    throw_away=1
else
    mkdir -p "$work"
    throw_away=0
fi
[ "${KEEP:-0}" = 1 ] && throw_away=0

# Own storage: nothing of the machine's images is seen or changed.
storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
b() { buildah "${storage[@]}" "$@"; }
container=
runner=
data=$work/data

# The daemon's pid, from its lock file; chroot isolation shares the machine's pids. Nothing is
# printed unless that process is the daemon of this test: the number is used to kill.
daemon_pid() {
    local pid
    pid=$(cat "$data/otlite.lock" 2>/dev/null) || return 1
    [[ $pid =~ ^[1-9][0-9]*$ ]] || return 1
    [ "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" = "/usr/bin/otlite serve " ] || return 1
    [ "$(stat -c %u "/proc/$pid" 2>/dev/null)" = 10001 ] || return 1
    [ "$(stat -Lc %d:%i "/proc/$pid/root/data" 2>/dev/null)" = "$(stat -c %d:%i "$data")" ] || return 1
    echo "$pid"
}
signal_daemon() { # SIGNAL
    local pid
    pid=$(daemon_pid) || die "the pid in otlite.lock is not the daemon of this test"
    kill "-$1" "$pid"
}

cleanup() {
    status=$?
    set +e
    if [ -n "$runner" ] && kill -0 "$runner" 2>/dev/null; then
        # The daemon; without it, our own child that runs it.
        if pid=$(daemon_pid); then kill -KILL "$pid"; else kill -TERM "$runner"; fi
        wait "$runner" 2>/dev/null
    fi
    [ -n "$container" ] && b rm "$container" >/dev/null 2>&1
    if [ "$throw_away" = 1 ]; then
        b rmi --all --force >/dev/null 2>&1
        rm -rf "$work"
    else
        say "left in $work"
    fi
    exit "$status"
}
trap cleanup EXIT

# --- the base image, from the mirror that this machine uses ---

suite=bookworm
base=docker.io/library/debian:bookworm-slim
rootfs=$work/rootfs

# shellcheck disable=SC2016 # apt-get expands these, not the shell
debian_targets() {
    apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(REPO_URI) $(COMPONENT)' \
        'Created-By: Packages' |
        awk -v s="$suite" '$1 == "Debian" && index($2, s) == 1 { print $3, $2, $4 }' | sort -u
}

# apt's way to the mirror: sources, and whatever it is told about proxies and checks.
configure_apt() {
    rm -rf "$rootfs"/etc/apt/sources.list.d
    mkdir -p "$rootfs"/etc/apt/sources.list.d "$rootfs"/etc/apt/apt.conf.d
    debian_targets | sed 's/^/deb /' >"$rootfs/etc/apt/sources.list"
    apt-config dump |
        grep -E '^Acquire::(http|https|ftp|Check-Valid-Until|Check-Date|Retries|ForceIPv)' |
        grep -Ev '^Acquire::[^ ]* "";$' >"$rootfs/etc/apt/apt.conf.d/90mirror" || true
}

make_base() {
    mirror=$(debian_targets | awk -v s="$suite" '$2 == s && $3 == "main" { print $1; exit }')
    [ -n "$mirror" ] || die "apt knows no mirror with $suite main; the image is built on Debian 12"
    say "debootstrap $suite"
    rm -rf "$rootfs"
    debootstrap --variant=minbase "$suite" "$rootfs" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail -n 20 "$work/debootstrap.log" >&2; die "debootstrap"; }
    configure_apt
    rm -rf "$rootfs"/var/cache/apt/archives/*.deb "$rootfs"/var/lib/apt/lists/*
    say "import as $base"
    tar -C "$rootfs" -c . | podman "${storage[@]}" import - "$base" >/dev/null 2>"$work/import.log" ||
        { tail -n 20 "$work/import.log" >&2; die "podman import"; }
    rm -rf "$rootfs"
}

b inspect --type image "$base" >/dev/null 2>&1 || make_base

# --- build ---

# --format docker: the OCI format has no HEALTHCHECK.
say "buildah build"
b build --isolation=chroot --network=host --pull-never --format docker -t otlite-test \
    -f deploy/Dockerfile . >"$work/build.log" 2>&1 ||
    { tail -n 40 "$work/build.log" >&2; die "the image does not build"; }

config() { b inspect --type image --format "{{$1}}" otlite-test; }
expect() { # WHAT GOT WANTED
    [ "$2" = "$3" ] || die "$1 is '$2', expected '$3'"
}
expect ENTRYPOINT "$(config .Docker.Config.Entrypoint)" "[otlite]"
expect CMD "$(config .Docker.Config.Cmd)" "[serve]"
expect USER "$(config .Docker.Config.User)" "10001:10001"
expect VOLUME "$(config .Docker.Config.Volumes)" "map[/data:{}]"
expect EXPOSE "$(config .Docker.Config.ExposedPorts)" "map[4318/tcp:{}]"
expect HEALTHCHECK "$(config .Docker.Config.Healthcheck.Test)" "[CMD otlite health]"

# --- run ---

rm -rf "$data"
mkdir "$data"
chown 10001:10001 "$data" # what an engine does with a new volume, from the image's /data

# A working container with $data at /data. buildah gives the image's VOLUME a directory of its own,
# which would hide the mount: the container, not the image, is told to forget it.
new_container() {
    [ -z "$container" ] || b rm "$container" >/dev/null
    container=$(b from --pull-never otlite-test)
    b config --volume /data- "$container"
}
new_container

# A free port of this machine, whose network the container shares.
port=
for _ in $(seq 50); do
    p=$((20000 + RANDOM % 10000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
        port=$p
        break
    fi
done
[ -n "$port" ] || die "no free port"

# in_container COMMAND: buildah knows ENV and USER, but not ENTRYPOINT.
in_container() {
    b run --isolation=chroot --network=host --volume "$data:/data" \
        --env OTLITE_LISTEN="${listen:-127.0.0.1:$port}" "$container" -- "$@"
}

expect "the user" "$(in_container id -u)" 10001
expect "the owner of /data in the image" \
    "$(b run --isolation=chroot "$container" -- stat -c %u:%a /data)" 10001:750
missing=$(in_container ldd /usr/bin/otlite | grep 'not found' || true)
expect "what ldd misses" "$missing" ""
in_container sh -c 'command -v gcc || command -v make' >/dev/null 2>&1 && die "the image holds build tools"

say "open to the network without a token"
rc=0
listen=0.0.0.0:$port in_container otlite serve >"$work/refused.log" 2>&1 || rc=$?
expect "the exit status of serve on 0.0.0.0 without a token" "$rc" 78
grep -q 'token create' "$work/refused.log" || die "the refusal does not say what to do"

say "token, serve, health, a point"
token=$(in_container otlite token create --project default --scope write)
[ -n "$token" ] || die "token create printed nothing"

start() {
    in_container otlite serve >>"$work/serve.log" 2>&1 &
    runner=$!
    for _ in $(seq 300); do
        in_container otlite health >"$work/health.log" 2>&1 && return
        kill -0 "$runner" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$work/serve.log" "$work/health.log" >&2
    die "the daemon does not get healthy"
}
post() { # curl options; prints the status
    curl -sS -o "$work/answer" -w '%{http_code}' "http://127.0.0.1:$port/v1/metrics" \
        -H 'Content-Type: application/json' "$@" -d '{"resourceMetrics": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "ship"}}]},
        "scopeMetrics": [{"metrics": [{"name": "hull.depth", "unit": "m", "gauge": {"dataPoints": [
            {"timeUnixNano": "'"$(date +%s%N)"'", "asInt": "4318"}]}}]}]}]}'
}

# Health is refused while nothing serves.
in_container otlite health >/dev/null 2>&1 && die "health says yes without a daemon"
start
daemon_pid >/dev/null || die "no daemon of user 10001 holds $data/otlite.lock"
expect "the answer without a token" "$(post)" 401
expect "the answer with a token" "$(post -H "Authorization: Bearer $token")" 200

say "kill -9, a new container on the same volume"
signal_daemon KILL
wait "$runner" 2>/dev/null || true
runner=
new_container
start
row=$(in_container otlite sql 'SELECT service_name, metric, value FROM points')
expect "the row" "$row" "ship|hull.depth|4318"

say "SIGTERM"
signal_daemon TERM
rc=0
wait "$runner" || rc=$?
runner=
expect "the exit status after SIGTERM" "$rc" 0

echo "container-test: ok"
