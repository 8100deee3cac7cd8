#!/usr/bin/env bash
# Names the breaking changes of api/openapi.yaml between a commit and the working tree, and fails if there are any:
# dev/contract.sh oasdiff v0.1.0
set -euo pipefail
oasdiff=$1 from=$2
fail() { echo "contract-check: $*" >&2; exit 1; }

[ -n "$from" ] || fail "name the commit to compare with: make contract-check FROM=v0.1.0"
mkdir -p .build/contract
before=.build/contract/openapi.yaml accepted=api/breaking-accepted.txt
git show "$from:api/openapi.yaml" >$before || fail "there is no api/openapi.yaml in '$from'"
"$oasdiff" breaking --format singleline --color never --fail-on WARN --err-ignore $accepted --warn-ignore $accepted $before api/openapi.yaml
