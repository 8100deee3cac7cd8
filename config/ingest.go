package config

// Ingest limits the ingest of dead letters.
type Ingest struct {
	// The ingest stops while at least MaxPending messages are PENDING. The ingest of a dead-letter topic stops while at least
	// MaxPendingPerTopic of its messages are PENDING. 0 is no limit.
	MaxPending         int `yaml:"max_pending" check:"0 to 1000000000"`
	MaxPendingPerTopic int `yaml:"max_pending_per_topic" check:"0 to 1000000000"`
}
