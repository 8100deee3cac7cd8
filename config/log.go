package config

// Log configures the log.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is json, or console for reading on a terminal.
	Format string `yaml:"format"`
}

func defaultLog() Log { return Log{Level: "info", Format: "json"} }

func (l Log) validate(r *report) {
	r.oneOf("log.level", l.Level, "debug", "info", "warn", "error")
	r.oneOf("log.format", l.Format, "json", "console")
}
