#!/usr/bin/env bash
# Writes a bill of materials (CycloneDX) of each program in a folder. It has neither a time nor a random
# number: dev/sbom.sh cyclonedx-gomod v0.1.0 .build/bin .build/sbom
set -euo pipefail
tool=$1 version=$2 programs=$3 out=$4
mkdir -p "$out"
for program in dlq-api dlq-worker dlqctl; do
	"$tool" bin -json -licenses -assert-licenses -std -noserial -notimestamp -version "$version" \
		-output "$out/$program.cdx.json" "$programs/$program"
done
