// Package dev runs what the manager depends on, on one machine and with nothing
// configured: a real PostgreSQL, a real Temporal server and an in-process Kafka
// broker, all on loopback and all with their state in one folder. It is for
// development, demonstrations and tests; no production binary imports it.
package dev
