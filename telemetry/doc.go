// Package telemetry has the logger, the metrics registry, the metrics that are read from the store, the readiness checks, and
// the HTTP listener of a program without an API. The other packages get a logger and a registerer from the programs.
package telemetry
