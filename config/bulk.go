package config

// Bulk is how retries of a whole topic run.
type Bulk struct {
	// Lanes is how many pages of a bulk retry are in flight at once. Messages
	// with one key always share a lane.
	Lanes int `yaml:"lanes"`
}

func defaultBulk() Bulk { return Bulk{Lanes: 4} }

func (b Bulk) validate(r *report) { r.between("bulk.lanes", b.Lanes, 1, 64) }
