#!/bin/sh
# seed_http.sh DIR -- requests as first inputs, each behind the two bytes that fuzz_http reads: those of
# ../shared/cases, and some with what they lack.
set -eu
to=$1
mkdir -p "$to"
printf '\377\003POST /v1/metrics?a=b HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: close, x\r\n\r\n2;a=b\r\n{}\r\n1 ;c\r\n \r\n0\r\nX-A: b\r\n\r\n' >"$to/chunked"
printf '\002\000\r\n\r\nHEAD http://h:1/a HTTP/1.0\r\nContent-Length: 007\r\nConnection: keep-alive\r\n\r\n' >"$to/absolute"
printf '\000\000a\r\n0123456789\r\n0000000000000001\r\nx\r\n000\r\n\r\n' >"$to/body"
for f in ../shared/cases/*.http; do
    [ -f "$f" ] || continue
    { printf '\020\000'; cat "$f"; } >"$to/$(basename "$f")"
done
