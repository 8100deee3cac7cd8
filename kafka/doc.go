// Package kafka connects the manager to Kafka: Ingest takes dead letters out
// of their topics into the store, and Publisher sends them back to the topics
// they came from. It knows the formats of dead letters (origin.go) and the
// meaning of Kafka's errors (errors.go); it knows no database.
package kafka
