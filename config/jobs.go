package config

// Jobs configures jobs and their plans.
type Jobs struct {
	// Lanes is the number of parallel scans of a bulk retry. Messages with the same key
	// always share a lane.
	Lanes int `yaml:"lanes" default:"4" check:"1 to 64"`
	// PlanTTL is how long a job can be started from a plan.
	PlanTTL Duration `yaml:"plan_ttl" default:"1h" check:"at least 1s; at most 30d"`
}
