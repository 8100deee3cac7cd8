package config

// Bulk configures bulk retries.
type Bulk struct {
	// Lanes is the number of parallel scans of a bulk retry. Messages with the same key
	// always share a lane.
	Lanes int `yaml:"lanes" default:"4" check:"1 to 64"`
}
