#!/bin/sh
# seed_decode.sh DIR -- the recorded bodies and cases of ../shared as first inputs, each behind the byte
# that fuzz_decode reads: 6 protobuf, 7 JSON, 2 and 3 the same in gzip.
set -eu
to=$1
mkdir -p "$to"
printf '\006' >"$to/empty-protobuf"
printf '\007{"resourceMetrics":[]}' >"$to/empty-json"
for f in ../shared/payloads/* ../shared/cases/*; do
    [ -f "$f" ] && [ "$(stat -c %s "$f")" -le 262144 ] || continue
    name=$(basename "$f")
    case $name in
    *.json.gz) { printf '\003'; cat "$f"; } >"$to/$name" ;;
    *.gz) { printf '\002'; cat "$f"; } >"$to/$name" ;;
    *.json) { printf '\007'; cat "$f"; } >"$to/$name" ;;
    *.hex) { printf '\006'; grep -v '^#' "$f" | tr -d ' \n' | tr a-f A-F | basenc -d --base16; } >"$to/$name" ;;
    *.bin) { printf '\006'; cat "$f"; } >"$to/$name" ;;
    esac
done
[ -d ../shared/cases ] || echo "seed_decode.sh: ../shared is not there; starting from two empty requests"
