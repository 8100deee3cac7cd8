package dlq

import (
	"crypto/sha256"
	"errors"
)

// Letter is a dead letter that a service hands in without Kafka. Fields of Failure that are zero follow from
// the headers and the name of the topic, as for a record of Kafka.
type Letter struct {
	Record  Record
	Failure Failure
}

// MaxLetters is how many letters can be handed in at once, in a transaction.
const MaxLetters = 1000

// IdempotencyKey makes a second hand-in of the same letters harmless.
type IdempotencyKey struct {
	// Key identifies the request: the key that the sender gave, with the sender and the topic.
	Key [sha256.Size]byte
	// Request identifies the content of the request.
	Request [sha256.Size]byte
}

// ErrKeyReused means that the sender has used the idempotency key for other letters.
var ErrKeyReused = errors.New("the idempotency key was used for another request")

// NewIdempotencyKey hashes the parts of a request, each by itself, so that no other parts have the same hash.
func NewIdempotencyKey(key []string, request ...[]byte) *IdempotencyKey {
	parts := make([][]byte, len(key))
	for i := range key {
		parts[i] = []byte(key[i])
	}
	return &IdempotencyKey{Key: hashOf(parts), Request: hashOf(request)}
}

func hashOf(parts [][]byte) [sha256.Size]byte {
	var sums []byte
	for _, part := range parts {
		sum := sha256.Sum256(part)
		sums = append(sums, sum[:]...)
	}
	return sha256.Sum256(sums)
}
