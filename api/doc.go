// Package api serves the REST API: it reads messages from a store, starts retries and
// waits for them. openapi.yaml is its contract. The rules about messages are in package
// dlq.
package api
