#!/usr/bin/env bash
# Builds a release into dist/: the programs for each platform, dlqctl alone with its packages, the chart, bills of materials,
# notes and checksums. The same commit gives the same programs, archives and packages; only helm stamps the chart with the time.
set -euo pipefail
version=$1 platforms=$2 dlqctl_platforms=$3 project=$4 helm=$5 cyclonedx=$6 nfpm=$7
fail() { echo "release: $*" >&2; exit 1; }

[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "VERSION must be like v0.1.0, not '$version'"
[ -z "$(git status --porcelain)" ] || fail "commit or remove what git status shows: a release is built from a commit"
command -v zip >/dev/null || fail "install zip, which packs the archives for Windows"
notes=$(awk -v heading="## ${version#v}" '
	/^## / { found = ($0 == heading || index($0, heading " ") == 1) }
	found' CHANGELOG.md)
[ -n "$notes" ] || fail "CHANGELOG.md has no section '## ${version#v}': rename 'Unreleased', and begin a new one"

rm -rf dist && mkdir -p dist
printf '%s\n' "$notes" >"dist/notes.md"
commit_time=$(git log -1 --format=%ct)

# build linux/amd64 folder programs
build() {
	GOOS=${1%/*} GOARCH=${1#*/} make --no-print-directory build BIN="$2" PROGRAMS="$3" VERSION="$version"
}

# pack folder: into an archive beside it, with fixed names, times and owners
pack() {
	case $1 in
	*-windows-*)
		chmod -R u=rwX,go=rX "dist/$1"
		find "dist/$1" -exec touch -d "@$commit_time" {} +
		(cd dist && find "$1" -type f | LC_ALL=C sort | TZ=UTC zip -q -X -@ "$1.zip")
		;;
	*)
		LC_ALL=C tar --sort=name --mtime="@$commit_time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C dist -cf - "$1" |
			gzip -n >"dist/$1.tar.gz"
		;;
	esac
}

for platform in $platforms; do
	name=dlq-manager-$version-${platform/\//-}
	build "$platform" "dist/$name" "api worker dlqctl"
	cp LICENSE NOTICE README.md CHANGELOG.md config.yaml docs/licences.csv "dist/$name/"
	[ -e dist/dlq-api.cdx.json ] || dev/sbom.sh "$cyclonedx" "$version" "dist/$name" dist # of the first platform
	pack "$name"
	rm -r "dist/$name"
done

shared=dist/shared
mkdir -p $shared/completions $shared/man/man1
cp LICENSE NOTICE docs/licences.csv $shared/
go run ./cmd/dlqctl/man $shared/man/man1 "$version" "$commit_time"
for file in bash:dlqctl.bash zsh:_dlqctl fish:dlqctl.fish powershell:dlqctl.ps1; do
	go run ./cmd/dlqctl completion "${file%%:*}" >"$shared/completions/${file#*:}"
done
for platform in $dlqctl_platforms; do
	name=dlqctl-$version-${platform/\//-}
	cp -r $shared "dist/$name"
	build "$platform" "dist/$name" dlqctl
	[ "${platform%/*}" != windows ] || mv "dist/$name/dlqctl" "dist/$name/dlqctl.exe"
	pack "$name"
	if [ "${platform%/*}" = linux ]; then
		gzip -9n "dist/$name/man/man1/"*
		FOLDER=dist/$name ARCH=${platform#*/} VERSION=$version PROJECT_URL=$project SOURCE_DATE_EPOCH=$commit_time \
			"$nfpm" package --config deploy/debian/nfpm.yaml --packager deb --target "dist/$name.deb"
	fi
	rm -r "dist/$name"
done
rm -r $shared
if [ -n "$project" ]; then
	dev/formula.sh "$version" "$project" >dist/dlqctl.rb
else
	echo "release: without PROJECT_URL there is no Homebrew formula, whose addresses begin with it" >&2
fi
"$helm" package deploy/helm/dlq-manager --version "${version#v}" --app-version "${version#v}" --destination dist
(cd dist && sha256sum -- * >SHA256SUMS)
ls -l dist
