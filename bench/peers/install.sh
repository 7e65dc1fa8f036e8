#!/bin/bash
# Put the peers of otlite-bench reads and storage beside the build: VictoriaMetrics from Debian, unpacked and not
# installed, and DuckDB from npm. What cannot be had is said, and its rows stay empty.
#
#   bench/peers/install.sh        B=build
set -euo pipefail
cd "$(dirname "$0")/../.."
b=$(realpath -m "${B:-build}")
mkdir -p "$b/peers"

victoria() {
    local kept=$b/peers/victoria-metrics tmp
    [ ! -x "$kept/usr/bin/victoria-metrics" ] || return 0
    tmp=$(mktemp -d)
    (cd "$tmp" && { apt-get -qq -o APT::Sandbox::User=root download victoria-metrics ||
        { apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download victoria-metrics; }; }) &&
        mkdir -p "$kept" && dpkg-deb -x "$tmp"/victoria-metrics_*.deb "$kept" &&
        dpkg-deb -f "$tmp"/victoria-metrics_*.deb Version >"$kept/version" ||
        echo "peers: VictoriaMetrics cannot be fetched with apt-get (needs root and Debian's main archive)" >&2
    rm -rf "$tmp"
}

duckdb() {
    local kept=$b/peers/duckdb
    [ ! -d "$kept/node_modules/@duckdb/node-api" ] || return 0
    mkdir -p "$kept"
    npm install --silent --no-save --prefix "$kept" @duckdb/node-api >&2 ||
        echo "peers: DuckDB cannot be fetched with npm" >&2
}

victoria
duckdb
