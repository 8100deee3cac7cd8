package config

// Jobs configures jobs and their plans.
type Jobs struct {
	// Lanes is the number of parallel scans of a bulk retry. All messages with the same key are in the same lane.
	Lanes int `yaml:"lanes" default:"4" check:"1 to 64"`
	// PlanTTL is the time after which a plan expires, and no longer starts a job.
	PlanTTL Duration `yaml:"plan_ttl" default:"1h" check:"at least 1s; at most 30d"`
}
