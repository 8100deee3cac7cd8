package config

// Ingest limits the ingest of dead letters.
type Ingest struct {
	// At MaxPending PENDING messages the ingest stops. At MaxPendingPerTopic PENDING messages of a dead-letter topic, the ingest
	// of this topic stops. 0 is no limit.
	MaxPending         int `yaml:"max_pending" check:"0 to 1000000000"`
	MaxPendingPerTopic int `yaml:"max_pending_per_topic" check:"0 to 1000000000"`
}
