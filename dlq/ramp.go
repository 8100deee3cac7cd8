package dlq

import (
	"bytes"
	"encoding/json"
)

type plainRamp Ramp

// newerRamp is the JSON of a ramp that earlier versions would run without its Confirm. They
// cannot decode it, since they expect a list of steps, and end the job with a reason. That
// includes their workflow code, which reads the ramp from results of activities.
type newerRamp struct {
	Steps string    `json:"steps"`
	Newer plainRamp `json:"newer_ramp"`
}

// MarshalJSON encodes a ramp.
func (r Ramp) MarshalJSON() ([]byte, error) {
	if r.Confirm == "" {
		return json.Marshal(plainRamp(r))
	}
	return json.Marshal(newerRamp{Steps: "need a later version", Newer: plainRamp(r)})
}

// UnmarshalJSON refuses fields that this version does not know.
func (r *Ramp) UnmarshalJSON(encoded []byte) error {
	newer := newerRamp{}
	if decode(encoded, &newer) == nil && newer.Newer.Confirm != "" {
		*r = Ramp(newer.Newer)
		return nil
	}
	return decode(encoded, (*plainRamp)(r))
}

func decode(encoded []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
