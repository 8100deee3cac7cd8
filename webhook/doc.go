// Package webhook sends dead letters to HTTP endpoints, as Standard Webhooks. Its publisher
// stands beside Kafka's.
package webhook
