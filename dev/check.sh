#!/usr/bin/env bash
# Checks a change in about a minute: builds, lints the touched packages, and runs their quick tests (-short), those
# of their importers, and the tests that compare documents with code. A change is the commits that origin/main has
# not, and everything uncommitted; without origin/main only the latter.
set -euo pipefail
lint=$1 workflowcheck=$2 actionlint=$3

base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
files=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
# The folder and the imports of each package, without the module's name.
packages=$(go list -f '{{.Dir}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
	sed "s|^$PWD/||; s| dlqmanager/| |g")

# A file belongs to the nearest folder with a package: a migration, testdata, the contract of the API.
touched=$(while read -r file; do
	until [ "$file" = . ] || grep -q "^$file " <<<"$packages"; do file=$(dirname "$file"); done
	[ "$file" = . ] || echo "./$file"
done <<<"$files" | sort -u)

# Tests of importers that wait for servers are left to make test.
importers=$(awk -v touched="${touched//$'\n'/ }" '
	BEGIN { n = split(touched, t, " "); for (i = 1; i <= n; i++) is[substr(t[i], 3)] = 1 }
	{ for (i = 2; i <= NF; i++) if ($i in is) { print "./" $1; next } }' <<<"$packages" |
	grep -vxE '\./(activities|api|bench|cmd/.*|dev|e2e.*|kafka|migrations|store/.*|workflows|internal/.*)' || true)

echo "== build"
go build ./...
echo "== lint" $touched
if grep -q '^\.github/' <<<"$files"; then "$actionlint"; fi
if grep -q '^workflows/' <<<"$files"; then "$workflowcheck" ./workflows/...; fi
[ -z "$touched" ] || GOLANGCI_LINT_CACHE=$PWD/.build/lint-cache "$lint" run --allow-parallel-runners $touched
echo "== test" $touched $importers
CI= go test -short -timeout 5m ./docs ./config ./deploy ./client $touched $importers
