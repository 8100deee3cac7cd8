// Package kafka connects the manager to Kafka. Ingest stores the dead letters of the
// dead-letter topics, and Publisher sends them back to their original topics. The formats
// of dead letters are in origin.go, the meaning of Kafka's errors is in errors.go. The
// package does not depend on a database.
package kafka
