package config

import "dlqmanager/dlq"

// Audit configures the record of who asked for which change.
type Audit struct {
	// Retention is how long the database keeps an operation.
	Retention Duration `yaml:"retention" default:"400d"`
	// Log also writes every operation to the program's log.
	Log *bool `yaml:"log" default:"false"`
}

// Logs reports whether operations are written to the log.
func (a Audit) Logs() bool { return a.Log != nil && *a.Log }

func (a Audit) validate(s section) {
	s.refuse(a.Retention.Std() < dlq.AuditFloor, "retention", "must be at least %s, not %s", Duration(dlq.AuditFloor), a.Retention)
}
