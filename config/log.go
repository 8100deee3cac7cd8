package config

// Log configures the log.
type Log struct {
	Level string `yaml:"level" default:"info" check:"one of debug, info, warn, error"`
	// Format is json, or console for reading on a terminal.
	Format string `yaml:"format" default:"json" check:"one of json, console"`
}
