#!/bin/sh
# Have Debian's Prometheus at hand, the oracle of the conformance test. It is unpacked beside the build, not
# installed: the package would start a server of its own. Does nothing when there is one.
set -eu
cd "$(dirname "$0")/../.."

command -v prometheus >/dev/null 2>&1 && exit 0
oracle=build/oracle
[ -x $oracle/usr/bin/prometheus ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "install.sh: no apt-get here; without prometheus in PATH its conformance test is skipped" >&2
    exit 0
fi
mkdir -p $oracle
cd $oracle
if ! apt-get download -qq prometheus >log 2>&1; then
    echo "install.sh: apt-get download prometheus failed ($(tail -n 1 log)); its conformance test is skipped" >&2
    exit 0
fi
dpkg-deb -x prometheus_*.deb .
rm -f prometheus_*.deb
