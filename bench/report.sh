#!/bin/sh
# Put the tables of a results folder into a page, so that its figures are those that were measured.
#
#   bench/report.sh DIR PAGE      what is between <!-- bench:NAME --> and <!-- /bench:NAME --> becomes
#                                 DIR/NAME.md, for every NAME.md in DIR; PAGE is replaced in one step
#   bench/report.sh --check PAGE  the markers are in order, and no table of figures is outside them
#
# Markers stand on lines of their own. Every NAME.md needs a pair of them in the page, or nothing is
# written. A pair without a NAME.md keeps what it has, and is named: that table was measured another time.
set -eu

fail() {
    echo "report: $1" >&2
    exit 1
}

# The markers of a page in order, as "open NAME LINE" and "close NAME LINE"; a fault is reported.
check_markers() { # PAGE
    awk '
    function fault(text) { print "report: " FILENAME ":" FNR ": " text > "/dev/stderr"; bad = 1; exit 1 }
    /<!-- *\/?bench:/ && !/^<!-- \/?bench:[a-z0-9-]+ -->$/ {
        fault("a marker must be alone on its line, as <!-- bench:NAME -->")
    }
    /^<!-- bench:/ {
        name = $2; sub(/^bench:/, "", name)
        if (open != "") fault("bench:" name " begins inside of bench:" open)
        if (name in seen) fault("bench:" name " is there twice")
        seen[name] = 1; open = name
    }
    /^<!-- \/bench:/ {
        name = $2; sub(/^\/bench:/, "", name)
        if (open != name) fault("bench:" name " ends but did not begin")
        open = ""
    }
    END { if (bad) exit 1; if (open != "") fault("bench:" open " has no end") }
    ' "$1" || exit 1
}

# A table outside of the markers whose head names a unit of measurement holds figures by hand.
check_figures() { # PAGE
    awk '
    /^<!-- bench:/ { inside = 1 }
    /^<!-- \/bench:/ { inside = 0 }
    /^\|/ && !inside && !in_table && /points\/s|, ms|ns a point|CPU second|bytes a point|MiB|cores/ {
        print "report: " FILENAME ":" FNR ": figures outside of the markers: " $0 > "/dev/stderr"
        bad = 1
    }
    { in_table = /^\|/ }
    END { exit bad }
    ' "$1" || exit 1
}

[ $# -eq 2 ] || fail "usage: report.sh DIR PAGE | report.sh --check PAGE"
page=$2
[ -f "$page" ] || fail "$page is not there"
check_markers "$page"
if [ "$1" = --check ]; then
    check_figures "$page"
    exit 0
fi

dir=$1
[ -d "$dir" ] || fail "$dir is no folder"
names=
for table in "$dir"/*.md; do
    [ -f "$table" ] || fail "$dir holds no tables"
    name=$(basename "$table" .md)
    grep -qx "<!-- bench:$name -->" "$page" || fail "$page has no <!-- bench:$name --> for $table"
    names="$names $name"
done

new=$(mktemp "$page.XXXXXX")
trap 'rm -f "$new"' EXIT
NAMES="$names " DIR="$dir" awk '
/^<!-- \/bench:/ { skip = 0 }
!skip
/^<!-- bench:/ {
    name = $2; sub(/^bench:/, "", name)
    if (index(ENVIRON["NAMES"], " " name " ") == 0) {
        print "report: " name " was not measured this time and stays as it is" > "/dev/stderr"
        next
    }
    file = ENVIRON["DIR"] "/" name ".md"
    while ((got = (getline line < file)) > 0)
        print line
    if (got < 0) { print "report: cannot read " file > "/dev/stderr"; exit 1 }
    close(file)
    skip = 1
}
' "$page" >"$new"
chmod 644 "$new"
mv "$new" "$page"
