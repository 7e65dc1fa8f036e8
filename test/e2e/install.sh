#!/bin/sh
# Fetch the npm packages of the end-to-end tests, as the lock file has them; does nothing when
# node_modules is there and not older than the lock file.
set -eu
cd "$(dirname "$0")"

stamp=node_modules/.package-lock.json
if [ -f "$stamp" ] && [ ! "$stamp" -ot package-lock.json ]; then
    exit 0
fi
command -v npm >/dev/null 2>&1 || {
    echo "install.sh: npm is not installed; run deploy/deps.sh test" >&2
    exit 69
}
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
# npm may give its stamp the time of the packages; ours is the moment of the installation.
touch "$stamp"
