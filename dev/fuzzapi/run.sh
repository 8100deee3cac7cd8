#!/usr/bin/env bash
# Calls the REST API with generated requests, good and bad, and compares the answers with
# the contract. The API runs in a stack of its own, on free ports, with the shop's messages.
# run.sh SECONDS VERSION OF SCHEMATHESIS [more options of schemathesis]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=$1 version=$2
shift 2

tool=.build/schemathesis-$version
if [ ! -x "$tool/bin/schemathesis" ]; then
	if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
		apt-get install -y -qq --no-install-recommends python3 python3-venv
	fi
	python3 -m venv "$tool"
	"$tool/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi

# The Temporal CLI in bin/ is kept: its build takes minutes.
export DLQ_DEV_DIR=.build/fuzz-api DLQ_DEV_TEMPORAL_UI_PORT=0
rm -rf "$DLQ_DEV_DIR"/{postgres,kafka,temporal,dlq-manager.log}
if [ -z "${DLQ_DEV_TEMPORAL_BIN:-}" ] && [ -x .data/bin/temporal ]; then
	export DLQ_DEV_TEMPORAL_BIN=.data/bin/temporal
fi
read -r DLQ_SERVER_PORT DLQ_WORKER_METRICS_PORT DLQ_DEV_POSTGRES_PORT DLQ_DEV_KAFKA_PORT DLQ_DEV_TEMPORAL_PORT < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
print(*(s.getsockname()[1] for s in sockets))')
export DLQ_SERVER_PORT DLQ_WORKER_METRICS_PORT DLQ_DEV_POSTGRES_PORT DLQ_DEV_KAFKA_PORT DLQ_DEV_TEMPORAL_PORT

go build -o .build/fuzz-api-dev ./cmd/dev
.build/fuzz-api-dev &
stack=$!
trap 'kill "$stack" 2>/dev/null && wait "$stack" || true' EXIT
api=http://127.0.0.1:$DLQ_SERVER_PORT
until curl --silent --fail --output /dev/null "$api/readyz"; do
	kill -0 "$stack" # it has stopped, and said why
	sleep 0.5
done
.build/fuzz-api-dev demo -once -messages 300 >/dev/null
until [ "$(curl --silent "$api/api/v1/dlq" | grep -o '"PENDING":100' | wc -l)" = 3 ]; do # each of its topics
	kill -0 "$stack"
	sleep 0.5
done

export SCHEMATHESIS_HOOKS=$PWD/dev/fuzzapi/hooks.py
cd "$DLQ_DEV_DIR" # the tool writes into the current folder
"../../$tool/bin/schemathesis" run "$api/openapi.json" --continue-on-failure --max-time "$seconds" "$@"
