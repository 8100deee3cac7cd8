package config

// Ingest limits the ingest of dead letters.
type Ingest struct {
	// MaxPending is the number of PENDING messages at which the ingest stops.
	// MaxPendingPerTopic is the same for one dead-letter topic. 0 is no limit.
	MaxPending         int `yaml:"max_pending"`
	MaxPendingPerTopic int `yaml:"max_pending_per_topic"`
}

func (i Ingest) validate(r *report) {
	const most = 1_000_000_000
	r.between("ingest.max_pending", i.MaxPending, 0, most)
	r.between("ingest.max_pending_per_topic", i.MaxPendingPerTopic, 0, most)
}
