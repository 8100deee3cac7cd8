#!/usr/bin/env bash
# Builds a release into dist/: the programs for each platform, the chart, bills of materials, notes and
# checksums. The same commit gives the same programs and archives; only helm stamps the chart with the time.
set -euo pipefail
version=$1 platforms=$2 helm=$3 cyclonedx=$4
fail() { echo "release: $*" >&2; exit 1; }

[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "VERSION must be like v0.1.0, not '$version'"
[ -z "$(git status --porcelain)" ] || fail "commit or remove what git status shows: a release is built from a commit"
notes=$(awk -v heading="## ${version#v}" '
	/^## / { found = ($0 == heading || index($0, heading " ") == 1) }
	found' CHANGELOG.md)
[ -n "$notes" ] || fail "CHANGELOG.md has no section '## ${version#v}': rename 'Unreleased', and begin a new one"

rm -rf dist && mkdir -p dist
printf '%s\n' "$notes" >"dist/notes.md"
commit_time=$(git log -1 --format=%ct)
for platform in $platforms; do
	name=dlq-manager-$version-${platform/\//-}
	GOOS=${platform%/*} GOARCH=${platform#*/} make --no-print-directory build BIN="dist/$name" PROGRAMS="api worker dlqctl" VERSION="$version"
	cp LICENSE NOTICE README.md CHANGELOG.md config.yaml docs/licences.csv "dist/$name/"
	[ -e dist/dlq-api.cdx.json ] || dev/sbom.sh "$cyclonedx" "$version" "dist/$name" dist # of the first platform
	tar --sort=name --mtime="@$commit_time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C dist -cf - "$name" |
		gzip -n >"dist/$name.tar.gz"
	rm -r "dist/$name"
done
"$helm" package deploy/helm/dlq-manager --version "${version#v}" --app-version "${version#v}" --destination dist
(cd dist && sha256sum -- * >SHA256SUMS)
ls -l dist
