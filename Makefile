# `make run` starts everything on this machine, `make check` tests a change, `make test` runs the tests.
# They need only Go and git. Tools are built into .build/bin.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.12.2
WORKFLOWCHECK_VERSION := v0.6.0
ACTIONLINT_VERSION := v1.7.12
SCHEMATHESIS_VERSION := 4.32.5
GOVULNCHECK_VERSION := v1.9.0
HELM_VERSION := v3.19.5
KUBECONFORM_VERSION := v0.7.0
KUBERNETES_SCHEMAS_VERSION := 1.37.0
GO_LICENSES_VERSION := v1.6.0
CYCLONEDX_GOMOD_VERSION := v1.10.0
OAPI_CODEGEN_VERSION := v2.8.2
NFPM_VERSION := v2.45.2
OASDIFF_VERSION := v1.37.0

IMAGE ?= dlq-manager
TARGET ?= api
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN := .build/bin
LINTERS := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) $(BIN)/workflowcheck-$(WORKFLOWCHECK_VERSION) $(BIN)/actionlint-$(ACTIONLINT_VERSION)
PROGRAMS ?= api worker dlqctl dev
POSTGRES_VERSIONS ?= 15 17
AXE_VERSION := 4.14.1
RUN ?= .
FUZZTIME ?= 10s
FUZZ_API_SECONDS ?= 90
LDFLAGS := -s -w -X dlqmanager/cmd/internal/app.Version=$(VERSION) -X main.Version=$(VERSION)

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start everything on this machine: API, worker, PostgreSQL, Kafka, Temporal with its Web UI
	@go build -ldflags "$(LDFLAGS)" -o $(BIN)/dlq-dev ./cmd/dev && go build -ldflags "$(LDFLAGS)" -o $(BIN)/dlqctl ./cmd/dlqctl && exec $(BIN)/dlq-dev

.PHONY: demo
demo: ## Run a shop beside `make run`: its consumer fails and fills dead-letter topics
	@go build -ldflags "$(LDFLAGS)" -o $(BIN)/dlq-dev ./cmd/dev && exec $(BIN)/dlq-dev demo

.PHONY: check
check: $(LINTERS) ## Begin here after an edit: build, lint and test what changed, in about a minute
	@dev/check.sh $(LINTERS)

.PHONY: test
test: ## Run the tests: unit, PostgreSQL, Temporal, Kafka (in process and real), end to end
	go test -timeout 20m ./...

.PHONY: slowest
slowest: ## Run the tests, and print the ten slowest tests and packages
	@go run ./dev/slowest -timeout 20m ./...

.PHONY: test-release
test-release: chart-tools ## Test a release's archives and packages, and the Helm chart; needs dpkg, zip and python3 with pip
	go vet -tags release ./deploy
	go test -tags release -timeout 10m ./deploy

.PHONY: chart-tools
chart-tools: $(BIN)/helm-$(HELM_VERSION) $(BIN)/kubeconform-$(KUBECONFORM_VERSION) .build/kubernetes-schemas-$(KUBERNETES_SCHEMAS_VERSION) $(BIN)/cyclonedx-gomod-$(CYCLONEDX_GOMOD_VERSION) $(BIN)/nfpm-$(NFPM_VERSION) $(BIN)/oasdiff-$(OASDIFF_VERSION) ## Build the tools of the tests of chart and release; needs python3 with pip

.PHONY: test-upgrade
test-upgrade: ## Upgrade from the programs of another commit and roll back, under load: make test-upgrade FROM=v0.1.0
	rm -rf .build/upgrade && mkdir -p .build/upgrade && git archive $(FROM) | tar -x -C .build/upgrade
	DLQ_TEST_UPGRADE_FROM=$(abspath .build/upgrade) go test -count=1 -v -run TestAnUpgradeAndItsRollbackUnderLoad ./e2e

.PHONY: test-postgres
test-postgres: ## Run the store's tests on the oldest and the newest supported PostgreSQL
	for version in $(POSTGRES_VERSIONS); do \
		DLQ_TEST_POSTGRES_VERSION=$$version go test -count=1 -timeout 10m -run '$(RUN)' ./store/postgres ./migrations || exit 1; \
	done

.PHONY: test-frameworks
test-frameworks: ## Compare the dead letters of Spring, Kafka Connect and others with the corpus, and connect to Kafka over TLS; needs Java and Maven
	go vet -tags frameworks ./frameworks
	go test -tags frameworks ./frameworks -count=1 -timeout 60m -v # which shows what is skipped
	go vet -tags frameworks ./cmd/internal/app
	go test -tags frameworks ./cmd/internal/app -run ARealKafka -count=1 -timeout 5m -v

.PHONY: test-keycloak
test-keycloak: ## Run the API with a real Keycloak as its identity provider; needs Java and Maven
	go vet -tags keycloak ./e2e
	go test -tags keycloak ./e2e -run 'Keycloak$$' -count=1 -timeout 10m -v # which shows a skip

.PHONY: test-registry
test-registry: ## Decode values with the schemas of a real Schema Registry (Apicurio); needs Java and Maven
	go vet -tags apicurio ./registry
	go test -tags apicurio ./registry -run 'ARealRegistry$$' -count=1 -timeout 10m -v # which shows a skip

.PHONY: race
race: ## Run every test with the race detector
	go test -count=1 -race -timeout 40m ./...

.PHONY: fuzz
fuzz: ## Search for bad input with each Go fuzz target for FUZZTIME (10s)
	@# go test -fuzz would instrument all libraries too, whose build takes minutes.
	@mkdir -p .build/fuzz
	@for folder in $$(git grep -l --untracked '^func Fuzz' '*_test.go' | xargs -n 1 dirname | sort -u); do \
		program=$$PWD/.build/fuzz/$$(echo $$folder | tr -c 'a-z\n' _); \
		go test -c -gcflags='dlqmanager/...=-d=libfuzzer' -o $$program ./$$folder; \
		for target in $$(grep -ho '^func Fuzz[A-Za-z]*' $$folder/*_test.go | cut -c 6-); do \
			echo "== $$folder $$target"; \
			(cd $$folder && $$program -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzminimizetime 5s -test.fuzzcachedir $$program.corpus); \
		done; \
	done

.PHONY: fuzz-api
fuzz-api: ## Compare the API's answers to generated requests with the contract, for two minutes; needs python3
	@dev/fuzzapi/run.sh $(FUZZ_API_SECONDS) $(SCHEMATHESIS_VERSION)

.PHONY: build
build: ## Build the programs into .build/bin
	@# The image has no time zones, so timetzdata puts them into the programs. The version is in
	@# LDFLAGS. Without the stamp of git, a copy of the sources gives the same programs.
	for program in $(PROGRAMS); do \
		CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata -ldflags '$(LDFLAGS)' -o $(BIN)/$$(case $$program in (dlqctl) echo dlqctl;; (*) echo dlq-$$program;; esac) ./cmd/$$program; \
	done

.PHONY: reproducible
reproducible: ## Build the programs twice in different folders, without a cache, and compare them: some minutes
	@dev/reproducible.sh $(VERSION)

PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
DLQCTL_PLATFORMS ?= $(PLATFORMS) windows/amd64 windows/arm64
PROJECT_URL ?=

.PHONY: release
release: $(BIN)/helm-$(HELM_VERSION) $(BIN)/cyclonedx-gomod-$(CYCLONEDX_GOMOD_VERSION) $(BIN)/nfpm-$(NFPM_VERSION) ## Build a release into dist/: make release VERSION=v0.1.0 PROJECT_URL=https://github.com/owner/dlq-manager
	@dev/release.sh "$(VERSION)" "$(PLATFORMS)" "$(DLQCTL_PLATFORMS)" "$(PROJECT_URL)" $(abspath $^)

.PHONY: image
image: ## Build an image with docker, podman or buildah: make image VERSION=v0.1.0 TARGET=api IMAGE=dlq-manager
	@builder=$$(command -v docker || command -v podman || command -v buildah) || \
		{ echo "image: install docker, podman or buildah; make image-check runs the programs as the image does, without them" >&2; exit 1; }; \
	"$$builder" build --target $(TARGET) --build-arg VERSION=$(VERSION) -t $(IMAGE):$(VERSION) .

.PHONY: image-check
image-check: ## Run the programs as their image does: alone, without privileges, on a read-only file system; needs root
	@$(MAKE) --no-print-directory build PROGRAMS="api worker"
	go vet -tags image ./e2e ./deploy
	go test -tags image ./deploy -run 'TestTheStages' -count=1 -timeout 10m -v
	DLQ_TEST_IMAGE=$(abspath $(BIN)) go test -tags image ./e2e -run 'TestTheImage' -count=1 -timeout 5m -v

.PHONY: vulncheck
vulncheck: $(BIN)/govulncheck-$(GOVULNCHECK_VERSION) ## Look for known vulnerabilities; needs the internet, VULNCHECK_OFFLINE=ok does without
	@dev/vulncheck.sh $<

.PHONY: licences
licences: $(BIN)/go-licenses-$(GO_LICENSES_VERSION) ## Compare docs/licences.csv with the licences of the linked packages, and refuse other licences
	@dev/licences.sh $<

.PHONY: docs-metrics
docs-metrics: ## Write docs/metrics.md
	@go test ./cmd/internal/app -run TestTheMetricsPageIsCurrent -count=1 -args -write-docs

.PHONY: docs-dlqctl
docs-dlqctl: ## Write docs/dlqctl.md
	@go test ./cmd/dlqctl/ctl -run TestTheReferenceIsCurrent -count=1 -args -write-docs

.PHONY: docs-figures
docs-figures: ## Write the figures of docs/bench.md into the other pages
	@go test ./docs -run TestFiguresInThePagesAreThoseOfTheReport -count=1 -args -write-docs

.PHONY: docs-images
docs-images: ## Take the screenshots of the Temporal Web UI again; needs Chromium
	@go test ./e2e -run TestTheTemporalWebUIShowsRetries -count=1 -args -write-docs

.PHONY: docs-console-images
docs-console-images: ## Take the screenshots of the console again; needs Chromium
	@go test -tags console,pictures ./e2e -run TestTheConsoleInPictures -count=1 -timeout 5m

.PHONY: licences-write
licences-write: $(BIN)/go-licenses-$(GO_LICENSES_VERSION) ## Write docs/licences.csv
	@dev/licences.sh $< -write

.PHONY: sbom
sbom: $(BIN)/cyclonedx-gomod-$(CYCLONEDX_GOMOD_VERSION) ## Write a bill of materials (CycloneDX) of each program into .build/sbom
	@$(MAKE) --no-print-directory build PROGRAMS="api worker dlqctl"
	@dev/sbom.sh $< $(VERSION) $(BIN) .build/sbom

.PHONY: lint
lint: $(LINTERS) ## Run golangci-lint, check the import rules, the determinism of workflows and CI's steps
	@# A separate cache: a shared one contains the paths of other checkouts.
	GOLANGCI_LINT_CACHE=$(abspath .build/lint-cache) $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) run --allow-parallel-runners ./...
	$(BIN)/workflowcheck-$(WORKFLOWCHECK_VERSION) ./workflows/...
	$(BIN)/actionlint-$(ACTIONLINT_VERSION)

.PHONY: client
client: $(BIN)/oapi-codegen-$(OAPI_CODEGEN_VERSION) ## Generate the Go client from api/openapi.yaml
	@$< -config client/generate/config.yaml -o client/client.gen.go api/openapi.yaml

.PHONY: client-check
client-check: $(BIN)/oapi-codegen-$(OAPI_CODEGEN_VERSION) ## Compare the Go client with api/openapi.yaml
	@mkdir -p .build/client
	@$< -config client/generate/config.yaml -o .build/client/client.gen.go api/openapi.yaml
	@diff -u client/client.gen.go .build/client/client.gen.go || { echo "client-check: run make client" >&2; exit 1; }

.PHONY: contract-check
contract-check: $(BIN)/oasdiff-$(OASDIFF_VERSION) ## Name the breaking changes of api/openapi.yaml since a commit: make contract-check FROM=v0.1.0
	@dev/contract.sh $(abspath $<) "$(FROM)"

.PHONY: bench
bench: ## Measure against baselines of the same run, and the console in Lighthouse, for an hour; write docs/bench.md and its figures in other pages
	go run ./bench
	@$(MAKE) --no-print-directory docs-figures
	@$(MAKE) --no-print-directory lighthouse

.PHONY: soak
soak: ## Load everything at once for half an hour, and write docs/soak.md and its chart: does anything grow?
	go run ./bench -soak 30m

.PHONY: bench-quick
bench-quick: ## Run the benchmark at a fiftieth of the size; fails if a stable ratio is beyond its bound
	go run ./bench -quick

.PHONY: bench-large
bench-large: ## Measure with ten million messages whatever must not grow: half an hour, 40 GB of disk
	go run ./bench -rows 14,19 -stored 10000000 -bare -out ""
	go run ./bench -rows 1,5,15 -stored 500000 -beside 10000000 -runs 2 -out ""

AXE := .build/axe/package/axe.min.js

$(AXE):
	@mkdir -p .build/axe
	npm pack --silent --pack-destination .build/axe axe-core@$(AXE_VERSION) >/dev/null
	tar -xzf .build/axe/axe-core-$(AXE_VERSION).tgz -C .build/axe package/axe.min.js package/package.json
	@touch $@

.PHONY: test-console
test-console: $(AXE) ## Test the pages of the console in Chromium on the real parts; screenshots are in .build/console
	go vet -tags console,pictures ./e2e
	go test -tags console ./e2e -run 'TestTheConsole$$' -count=1 -timeout 15m -parallel 6

PAGES ?= .
LIGHTHOUSE := .build/lighthouse/node_modules/.package-lock.json

# npm compares each package with its hash in the lock file, which names no registry: the one of npm's configuration serves them.
$(LIGHTHOUSE): e2e/testdata/lighthouse/package.json e2e/testdata/lighthouse/package-lock.json
	@rm -rf $(@D) && mkdir -p .build/lighthouse && cp $^ .build/lighthouse
	npm ci --silent --ignore-scripts --prefix .build/lighthouse
	@touch $@

.PHONY: lighthouse
lighthouse: ## Measure the pages of the console with Lighthouse: each figure is at least 95; needs Chromium, Node and a quiet machine
	@for tool in node npm chromium; do command -v $$tool >/dev/null || { echo "lighthouse: $$tool is not in PATH" >&2; exit 1; }; done
	@$(MAKE) --no-print-directory $(LIGHTHOUSE)
	go vet -tags console,lighthouse ./e2e
	go test -tags console,lighthouse ./e2e -run 'TestTheConsoleInLighthouse$$/$(PAGES)' -count=1 -timeout 30m -v

.PHONY: endpoint-kills
endpoint-kills: ## Send 100,000 messages to an HTTP endpoint while the worker is killed five times: two minutes
	DLQ_TEST_ENDPOINT_MESSAGES=100000 DLQ_TEST_ENDPOINT_KILLS=5 go test ./e2e -run 'TestABulkRetryToAnEndpoint' -count=1 -timeout 10m -v

.PHONY: chaos
chaos: ## Run half an hour of kills, outages, locks, hangs and manual writes, then check that nothing was lost
	DLQ_CHAOS_DURATION=30m go test -tags chaos ./e2e -run 'TestChaos$$' -count=1 -timeout 60m -v

.PHONY: chaos-quick
chaos-quick: ## Run a minute of the same
	go vet -tags chaos ./e2e
	go test -tags chaos ./e2e -run 'TestChaos$$' -count=1 -timeout 10m

.PHONY: histories
histories: ## Record the workflow histories that the replay test replays
	go test ./workflows -run 'TestEveryWayThroughTheWorkflowsReplays|TestACancelledBulkChange|TestARetryCancelledWhileTheDatabaseIsAwayBurnsNone' -record -count=1

.PHONY: clean
clean: ## Remove build results; the state in .data stays
	rm -rf .build

$(BIN)/golangci-lint-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	@mv $(BIN)/golangci-lint $@

$(BIN)/helm-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install -ldflags '-s -w' helm.sh/helm/v3/cmd/helm@$*
	@mv $(BIN)/helm $@

$(BIN)/kubeconform-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/yannh/kubeconform/cmd/kubeconform@$*
	@mv $(BIN)/kubeconform $@

# The schemas of Kubernetes, of the oldest version that the chart supports and of the newest. Their
# references are to the internet; here they become those to the file beside them.
.build/kubernetes-schemas-%:
	@rm -rf $@.new
	python3 -m pip download --quiet --no-deps --dest $@.new kubernetes-validate==$*
	@cd $@.new && python3 -m zipfile -e *.whl . && rm *.whl
	@for version in 1.25.0 $*; do mv $@.new/kubernetes_validate/kubernetes-json-schema/v$$version-local-strict $@.new/v$$version; done
	@rm -rf $@.new/kubernetes_validate*
	@sed -i 's|"$$id":|"$$comment":|; s|"/api/_definitions|"_definitions|' $@.new/v*/*.json
	@mv $@.new $@

$(BIN)/govulncheck-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install golang.org/x/vuln/cmd/govulncheck@$*
	@mv $(BIN)/govulncheck $@

$(BIN)/actionlint-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/rhysd/actionlint/cmd/actionlint@$*
	@mv $(BIN)/actionlint $@

$(BIN)/workflowcheck-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install go.temporal.io/sdk/contrib/tools/workflowcheck@$*
	@mv $(BIN)/workflowcheck $@

$(BIN)/go-licenses-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/google/go-licenses@$*
	@mv $(BIN)/go-licenses $@

$(BIN)/cyclonedx-gomod-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$*
	@mv $(BIN)/cyclonedx-gomod $@

$(BIN)/oapi-codegen-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$*
	@mv $(BIN)/oapi-codegen $@

$(BIN)/nfpm-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install -ldflags '-s -w' github.com/goreleaser/nfpm/v2/cmd/nfpm@$*
	@mv $(BIN)/nfpm $@

$(BIN)/oasdiff-%:
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) go install -ldflags '-s -w' github.com/oasdiff/oasdiff@$*
	@mv $(BIN)/oasdiff $@
