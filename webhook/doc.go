// Package webhook sends dead letters to HTTP endpoints, as Standard Webhooks describes. Its Publisher has the same method
// Publish as the publisher of package kafka.
package webhook
