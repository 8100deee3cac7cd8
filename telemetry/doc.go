// Package telemetry makes what the programs are watched by: the logger, the
// registry that every metric is on, the metrics that are read from the store,
// the readiness of dependencies, and the listener that serves a program without
// an API. The other packages get a logger and a registerer from whoever wires
// them.
package telemetry
