package config

import "time"

// Archive configures the archive of RESOLVED and DEAD messages.
type Archive struct {
	// Schedule is in UTC: a cron expression of five fields, a name such as @daily, or
	// @every with a duration.
	Schedule string `yaml:"schedule"`
	// Retention is how long RESOLVED and DEAD messages stay in the main table.
	Retention Duration `yaml:"retention"`
	// PurgeAfter is the age at which archived messages are deleted for good.
	PurgeAfter Duration `yaml:"purge_after"`
	// BatchSize is how many messages one transaction moves.
	BatchSize int `yaml:"batch_size"`
}

func defaultArchive() Archive {
	return Archive{
		Schedule:   "@daily",
		Retention:  Duration(30 * day),
		PurgeAfter: Duration(365 * day),
		BatchSize:  1000,
	}
}

func (a Archive) validate(r *report) {
	if err := checkSchedule(a.Schedule); err != nil {
		r.add("archive.schedule", "%v", err)
	}
	r.atLeast("archive.retention", a.Retention, time.Second)
	if a.PurgeAfter <= a.Retention {
		r.add("archive.purge_after", "must be longer than archive.retention (%s), not %s", a.Retention, a.PurgeAfter)
	}
	r.between("archive.batch_size", a.BatchSize, 1, 100_000)
}
