package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// storedSpec is a dlq.BulkSpec as it is kept. Its names stay when those of the
// program change.
type storedSpec struct {
	Topic     string       `json:"topic"`
	Filter    storedFilter `json:"filter,omitzero"`
	RateLimit int          `json:"rate_limit,omitempty"`
	Order     dlq.Order    `json:"order,omitempty"`
	Ramp      *storedRamp  `json:"ramp,omitempty"`
	Reason    string       `json:"reason,omitempty"`
}

type storedFilter struct {
	Statuses      []dlq.Status `json:"statuses,omitempty"`
	ErrorContains string       `json:"error_contains,omitempty"`
	Key           *[]byte      `json:"key,omitempty"` // base64; an empty key is a key
	CreatedFrom   time.Time    `json:"created_from,omitzero"`
	CreatedTo     time.Time    `json:"created_to,omitzero"`
	IDs           []dlq.ID     `json:"ids,omitempty"`
}

type storedRamp struct {
	Steps       []int         `json:"steps,omitempty"`
	Wait        time.Duration `json:"wait_ns,omitempty"`
	MaxCameBack float64       `json:"max_came_back,omitempty"`
}

// normalizedSpec is the specification as it is kept, sharing nothing with s.
func normalizedSpec(s dlq.BulkSpec) dlq.BulkSpec {
	s.Topic, s.Reason = topicText(s.Topic), text(s.Reason)
	s.RateLimit = count32(s.RateLimit)
	s.Order = dlq.Order(text(string(s.Order)))
	f := &s.Filter
	f.ErrorContains = text(f.ErrorContains)
	f.Statuses = slices.Clone(f.Statuses)
	f.Key = slices.Clone(f.Key)
	f.IDs = unique(f.IDs)
	f.CreatedFrom, f.CreatedTo = f.CreatedFrom.UTC(), f.CreatedTo.UTC()
	if s.Ramp != nil {
		ramp := *s.Ramp
		ramp.Steps = slices.Clone(ramp.Steps)
		s.Ramp = &ramp
	}
	return s
}

// unique keeps the first of each id, in their order.
func unique(ids []dlq.ID) []dlq.ID {
	seen := make(map[dlq.ID]bool, len(ids))
	var kept []dlq.ID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	return kept
}

func encodeSpec(s dlq.BulkSpec) (string, error) {
	kept := storedSpec{Topic: s.Topic, RateLimit: s.RateLimit, Order: s.Order, Reason: s.Reason, Filter: storedFilter{
		Statuses: s.Filter.Statuses, ErrorContains: s.Filter.ErrorContains, Key: optional(s.Filter.Key, s.Filter.Key == nil),
		CreatedFrom: s.Filter.CreatedFrom, CreatedTo: s.Filter.CreatedTo, IDs: s.Filter.IDs}}
	if s.Ramp != nil {
		kept.Ramp = &storedRamp{Steps: s.Ramp.Steps, Wait: s.Ramp.Wait, MaxCameBack: s.Ramp.MaxCameBack}
	}
	encoded, err := json.Marshal(kept)
	if err != nil {
		return "", fmt.Errorf("the specification of a bulk retry: %w", err)
	}
	return string(encoded), nil
}

func decodeSpec(encoded []byte) (dlq.BulkSpec, error) {
	var kept storedSpec
	if err := json.Unmarshal(encoded, &kept); err != nil {
		return dlq.BulkSpec{}, fmt.Errorf("the specification of a bulk retry: %w", err)
	}
	s := dlq.BulkSpec{Topic: kept.Topic, RateLimit: kept.RateLimit, Order: kept.Order, Reason: kept.Reason, Filter: dlq.BulkFilter{
		Statuses: kept.Filter.Statuses, ErrorContains: kept.Filter.ErrorContains,
		CreatedFrom: kept.Filter.CreatedFrom, CreatedTo: kept.Filter.CreatedTo, IDs: kept.Filter.IDs}}
	if kept.Filter.Key != nil {
		s.Filter.Key = *kept.Filter.Key
	}
	if kept.Ramp != nil {
		s.Ramp = &dlq.Ramp{Steps: kept.Ramp.Steps, Wait: kept.Ramp.Wait, MaxCameBack: kept.Ramp.MaxCameBack}
	}
	return s, nil
}

// takesPending reports whether the filter lets PENDING messages through, the
// only ones that a bulk retry ever sends.
func takesPending(f dlq.BulkFilter) bool {
	return len(f.Statuses) == 0 || slices.Contains(f.Statuses, dlq.StatusPending)
}

// filterOf is the part of a bulk retry's filter that lists have too.
func filterOf(s dlq.BulkSpec) dlq.Filter {
	return dlq.Filter{Topic: topicText(s.Topic), Statuses: s.Filter.Statuses, ErrorContains: s.Filter.ErrorContains, Key: s.Filter.Key,
		CreatedFrom: s.Filter.CreatedFrom, CreatedTo: s.Filter.CreatedTo}
}
