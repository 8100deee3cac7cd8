package config

import "dlqmanager/dlq"

// Audit configures the record of who asked for which change.
type Audit struct {
	// Retention is how long the database keeps an operation.
	Retention Duration `yaml:"retention"`
	// Log also writes every operation to the program's log.
	Log *bool `yaml:"log"`
}

func defaultAudit() Audit { return Audit{Retention: Duration(400 * day), Log: new(bool)} }

// Logs reports whether operations are written to the log.
func (a Audit) Logs() bool { return a.Log != nil && *a.Log }

func (a Audit) validate(r *report) {
	r.atLeast("audit.retention", a.Retention, dlq.AuditFloor)
}
