# Everything a newcomer needs: `make run` starts it all on this machine,
# `make test` proves it. Needs Go and git; tools are built into .build/bin.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.12.2
WORKFLOWCHECK_VERSION := v0.6.0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN := .build/bin
LDFLAGS := -s -w -X dlqmanager/cmd/internal/app.Version=$(VERSION)

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start everything on this machine: API, worker, PostgreSQL, Kafka, Temporal with its Web UI
	@go build -ldflags "$(LDFLAGS)" -o $(BIN)/dlq-dev ./cmd/dev && exec $(BIN)/dlq-dev

.PHONY: demo
demo: ## Beside `make run`: a shop whose consumer fails and fills dead-letter topics
	@go build -ldflags "$(LDFLAGS)" -o $(BIN)/dlq-dev ./cmd/dev && exec $(BIN)/dlq-dev demo

.PHONY: test
test: ## The whole proof: unit, PostgreSQL, Temporal, Kafka (in process and real), end to end
	go test -timeout 20m ./...

.PHONY: test-postgres
test-postgres: ## The store's tests on the oldest and the newest PostgreSQL that it works on
	DLQ_TEST_POSTGRES_VERSION=15 go test -count=1 -timeout 10m ./store/postgres ./migrations
	DLQ_TEST_POSTGRES_VERSION=17 go test -count=1 -timeout 10m ./store/postgres ./migrations

.PHONY: race
race: ## The same under the race detector
	go test -count=1 -race -timeout 40m ./...

.PHONY: build
build: ## Build the programs into .build/bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/dlq-api ./cmd/api
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/dlq-worker ./cmd/worker
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/dlq-dev ./cmd/dev

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) $(BIN)/workflowcheck-$(WORKFLOWCHECK_VERSION) ## Lint, check the import arrows and the determinism of workflows
	@# A cache of its own: a shared one remembers the paths of other checkouts.
	GOLANGCI_LINT_CACHE=$(abspath .build/lint-cache) $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) run ./...
	$(BIN)/workflowcheck-$(WORKFLOWCHECK_VERSION) ./workflows/...

.PHONY: bench
bench: ## Measure against baselines of the same run, about half an hour; writes docs/bench.md and its chart
	go run ./bench

.PHONY: bench-quick
bench-quick: ## The same at a fiftieth of the size, to see that it works
	go run ./bench -quick

.PHONY: bench-large
bench-large: ## What must not grow, at ten million messages: a quarter of an hour and 20 GB of disk
	go run ./bench -rows 14 -stored 10000000 -bare -out ""

.PHONY: chaos
chaos: ## Half an hour of kills, outages, locks, silence and writes by hand, then the proof that nothing was lost
	DLQ_CHAOS_DURATION=30m go test ./e2e -run 'TestChaos$$' -count=1 -timeout 60m -v

.PHONY: histories
histories: ## Record the workflow histories that the replay test replays
	go test ./workflows -run 'TestEveryWayThroughTheWorkflowsReplays|TestARetryCancelledWhileTheDatabaseIsAwayBurnsNone' -record -count=1

.PHONY: clean
clean: ## Remove what was built; state in .data stays
	rm -rf .build

$(BIN)/golangci-lint-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	@mv $(BIN)/golangci-lint $@

$(BIN)/workflowcheck-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install go.temporal.io/sdk/contrib/tools/workflowcheck@$*
	@mv $(BIN)/workflowcheck $@
