#!/usr/bin/env bash
# Compares docs/licences.csv with the licences of all linked packages, or writes it; refuses licences that
# only a person can judge: dev/licences.sh go-licenses [-write]
set -euo pipefail
tool=$1 write=${2:-}
# These licences ask for their text to be passed on, and for nothing else.
allowed='^(Apache-2\.0|BSD-2-Clause|BSD-3-Clause|ISC|MIT|PostgreSQL)$'
# The only version, v0.1.0, has no licence file; go.temporal.io/api imports it.
accepted='^github\.com/nexus-rpc/nexus-proto-annotations/'

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
printf '{{range .}}{{.Name}},{{.LicenseName}},{{.LicensePath}}\n{{end}}' >"$work/template"
CGO_ENABLED=0 GOOS=linux GOFLAGS="${GOFLAGS:-} -tags=timetzdata" "$tool" report ./cmd/api ./cmd/worker ./cmd/dlqctl \
	--ignore dlqmanager --template "$work/template" >"$work/report" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
# A file is named without the folder of its module and the version, so only a new licence changes a line.
{ echo package,licence,file; grep . "$work/report" | sed -E 's|,/[^,@]*@[^/,]*/|,|' | LC_ALL=C sort; } >"$work/licences.csv"

if ! awk -F, -v allowed="$allowed" -v accepted="$accepted" 'NR > 1 && $2 !~ allowed && $1 !~ accepted {
	print "licences: the licence " $2 " of " $1 " is not allowed: " $3; bad = 1 } END { exit bad }' "$work/licences.csv" >&2; then
	exit 1
fi
if [ "$write" = -write ]; then
	cp "$work/licences.csv" docs/licences.csv
elif ! diff docs/licences.csv "$work/licences.csv"; then
	echo "licences: docs/licences.csv does not match the linked packages: look at the new licences, and run make licences-write" >&2
	exit 1
fi
echo "$(($(wc -l <"$work/licences.csv") - 1)) licences of linked packages"
