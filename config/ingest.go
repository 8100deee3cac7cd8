package config

// Ingest limits the ingest of dead letters.
type Ingest struct {
	// MaxPending is the number of PENDING messages at which the ingest stops.
	// MaxPendingPerTopic is the same for one dead-letter topic. 0 is no limit.
	MaxPending         int `yaml:"max_pending" check:"0 to 1000000000"`
	MaxPendingPerTopic int `yaml:"max_pending_per_topic" check:"0 to 1000000000"`
}
