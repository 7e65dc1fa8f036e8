#!/bin/sh
# No include points upward (docs/architecture.md, "Layers"): a file may include headers of its own
# layer and of lower ones. Third-party headers stay in the folder that wraps them.
# Prints "FILE: what is wrong" for each offence; exit 1 if there was one.
set -eu
cd "$(dirname "$0")/.."

awk '
function fault(text) { print FILENAME ": " text; bad = 1 }
BEGIN {
    layer["base"] = 0; layer["otlp"] = 1; layer["store"] = 2; layer["state"] = 2
    layer["query"] = 3; layer["http"] = 3; layer["page"] = 3; layer["cli"] = 4; layer["extension"] = 4
    n = split("arena bytes clock err handoff log reason stats", h, " ")
    for (i = 1; i <= n; i++) header[h[i]] = 0
    n = split("attrs batch convert decode json_reader known prom_names reply", h, " ")
    for (i = 1; i <= n; i++) header[h[i]] = 1
    n = split("backup check db export maintain matcher read reader regex series_points sql state store usage writer", h, " ")
    for (i = 1; i <= n; i++) header[h[i]] = 2
    n = split("admin auth http ingest prom_api query sql_api", h, " ")
    for (i = 1; i <= n; i++) header[h[i]] = 3
    n = split("cli config", h, " ")
    for (i = 1; i <= n; i++) header[h[i]] = 4
    # Layer 1 is pure: no logging, no counters, no threads, no clock.
    n = split("clock handoff log stats", h, " ")
    for (i = 1; i <= n; i++) impure[h[i]] = 1
}
FNR == 1 {
    n = split(FILENAME, part, "/")
    if (part[1] == "include") {
        area = "include"
        name = part[n]; sub(/\.h$/, "", name)
        mine = (name in header) ? header[name] : -1
        if (mine < 0) fault("is in no layer; add it to the table in test/lint-deps.sh")
    } else if (n == 2) {
        area = "main"; mine = 4
    } else {
        area = part[2]
        mine = (area in layer) ? layer[area] : -1
        if (mine < 0) fault("folder " area " is in no layer; add it to test/lint-deps.sh")
    }
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    file = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*[<"]/, "", file)
    sub(/[>"].*/, "", file)
    if (mine < 0) next
    if (file ~ /^otlite\//) {
        other = substr(file, 8); sub(/\.h$/, "", other)
        if (!(other in header))
            fault("includes " file ", which is in no layer")
        else if (header[other] > mine)
            fault("includes " file " of layer " header[other] " from layer " mine)
        if (mine == 1 && (other in impure))
            fault("includes " file ", but layer 1 is pure")
    } else if (split(file, up, "/") > 1 && (up[1] in layer)) {
        if (layer[up[1]] > mine)
            fault("includes " file " of layer " layer[up[1]] " from layer " mine)
        else if (up[1] != area && !(area == "main" && up[1] == "cli"))
            fault("includes " file ", a private header of " up[1])
    } else if (file ~ /^\.\.?\//) {
        fault("includes " file " by a relative path")
    }
    # It prints the version of each library.
    if (FILENAME == "src/cli/version.c") next
    if (file == "sqlite3.h" && area != "store" && area != "state" && area != "cli" && area != "extension")
        fault("includes sqlite3.h; only src/store, src/state, src/cli and src/extension may")
    if (file ~ /^event2\// && area != "http")
        fault("includes " file "; only src/http may")
    if ((file ~ /\.pb-c\.h$/ || file ~ /^protobuf-c\//) && area != "otlp")
        fault("includes " file "; only src/otlp may")
    if (file == "zlib.h" && area != "otlp" && area != "store" && area != "http")
        fault("includes zlib.h; only src/otlp, src/store and src/http may")
    if (file == "pcre2.h" && area != "store")
        fault("includes pcre2.h; only src/store may")
    if (file == "pthread.h" && mine == 1)
        fault("includes pthread.h, but layer 1 is pure")
}
END { exit bad }
' $(find include src -name '*.[ch]' | sort)
