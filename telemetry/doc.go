// Package telemetry makes what the programs are watched by: the logger, the
// registry that every metric is on, and the listener that serves it. It knows
// nothing of dead letters; the packages that do get a logger and a registerer
// from whoever wires them.
package telemetry
