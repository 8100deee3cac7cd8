package config

// Bulk configures bulk retries.
type Bulk struct {
	// Lanes is the number of parallel scans of a bulk retry. Messages with one key
	// always share a lane.
	Lanes int `yaml:"lanes"`
}

func defaultBulk() Bulk { return Bulk{Lanes: 4} }

func (b Bulk) validate(r *report) { r.between("bulk.lanes", b.Lanes, 1, 64) }
