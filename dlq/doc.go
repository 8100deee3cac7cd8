// Package dlq is the domain of the dead-letter-queue manager. It defines the dead letter,
// its states, the rule for retries, and the categories of errors. It does no I/O and
// imports only the standard library, so every other package can use its types.
package dlq
