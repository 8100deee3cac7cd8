// Package dlq is the domain of the dead-letter-queue manager: what a dead
// letter is, which states it passes through, when it may be retried, and how an
// error is judged. It does no I/O and imports nothing but the standard library,
// so every other package can speak its language.
package dlq
