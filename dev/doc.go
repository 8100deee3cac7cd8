// Package dev runs the manager's dependencies on one machine without configuration: a
// real PostgreSQL, a real Temporal server and an in-process Kafka broker. All listen on
// loopback and keep their state in one folder. It is for development, demonstrations
// and tests; no production binary imports it.
package dev
