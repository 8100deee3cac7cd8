package config

// Archive configures the archive of RESOLVED and DEAD messages.
type Archive struct {
	// Schedule is a cron expression of five fields, a name such as @daily, or @every with a duration. Its times are in UTC.
	Schedule string `yaml:"schedule" default:"@daily"`
	// Retention is how long RESOLVED and DEAD messages stay in the main table.
	Retention Duration `yaml:"retention" default:"30d" check:"at least 1s"`
	// PurgeAfter is the age at which archived messages are deleted for good.
	PurgeAfter Duration `yaml:"purge_after" default:"365d"`
	// BatchSize is the maximum number of messages that a transaction moves or deletes.
	BatchSize int `yaml:"batch_size" default:"1000" check:"1 to 100000"`
}

func (a Archive) validate(s section) {
	s.refuseError("schedule", checkSchedule(a.Schedule))
	s.refuse(a.PurgeAfter <= a.Retention, "purge_after", "must be longer than archive.retention (%s), not %s", a.Retention, a.PurgeAfter)
}
