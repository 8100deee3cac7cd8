#!/usr/bin/env bash
# Builds the programs twice, in two folders and without any cache, and compares the results.
set -euo pipefail
version=$1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for copy in first second/deeper; do
	mkdir -p "$work/$copy"
	git ls-files -z | xargs -0 cp --parents -t "$work/$copy"
	(cd "$work/$copy" && GOCACHE="$work/cache-${copy%%/*}" make --no-print-directory build PROGRAMS="api worker dlqctl" VERSION="$version")
done
for program in dlq-api dlq-worker dlqctl; do
	cmp "$work/first/.build/bin/$program" "$work/second/deeper/.build/bin/$program"
	sha256sum "$work/first/.build/bin/$program" | sed "s|$work/first/||"
done
echo "Both builds are the same."
