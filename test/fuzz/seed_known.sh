#!/bin/sh
# seed_known.sh DIR -- the recorded protobuf bodies of ../shared as first inputs, each with no edits and
# with two (fuzz_known.c: the byte, then four bytes an edit).
set -eu
to=$1
mkdir -p "$to"
printf '\000' >"$to/empty"
body() {
    case $1 in
    *.gz) gzip -dc "$1" 2>/dev/null || true ;;
    *.hex) grep -v '^#' "$1" | tr -d ' \n' | tr a-f A-F | basenc -d --base16 ;;
    *) cat "$1" ;;
    esac
}
for f in ../shared/payloads/*.bin ../shared/payloads/*.bin.gz ../shared/cases/*.hex ../shared/cases/*.bin; do
    [ -f "$f" ] && [ "$(stat -c %s "$f")" -le 65536 ] || continue
    name=$(basename "$f")
    { printf '\000'; body "$f"; } >"$to/$name"
    { printf '\040\000\100\001\000\001\000\000\007'; body "$f"; } >"$to/$name-edited"
done
[ -d ../shared/cases ] || echo "seed_known.sh: ../shared is not there; starting from an empty request"
