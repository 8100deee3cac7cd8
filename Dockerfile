# Three images from one build: `docker build --target api .`, `--target worker`
# and `--target dlqctl`. The result is static programs on nothing: no shell, no
# package manager, nothing that needs patching but the programs themselves. API and
# worker write no files, so the root file system can be read-only.

FROM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
WORKDIR /src

# The modules change less often than the code, so they are a layer of their own.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY . .
ARG VERSION=dev
ENV GOCACHE=/var/cache/go-build
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/var/cache/go-build \
    make build PROGRAMS="api worker dlqctl" VERSION="${VERSION}"

FROM scratch AS dlqctl
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/.build/bin/dlqctl /
USER 65532:65532
ENTRYPOINT ["/dlqctl"]

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/.build/bin/dlq-api /src/.build/bin/dlq-worker /
# A number, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532

FROM base AS worker
EXPOSE 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/dlq-worker", "healthcheck"]
ENTRYPOINT ["/dlq-worker"]

FROM base AS api
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/dlq-api", "healthcheck"]
ENTRYPOINT ["/dlq-api"]
