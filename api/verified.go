package api

import (
	"context"

	"dlqmanager/dlq"
)

// verifiedFields tell whether a consumer got past a delivered message; null unless it was
// delivered.
type verifiedFields struct {
	Verified       *string `json:"verified"`
	VerifiedReason *string `json:"verified_reason"`
}

func viewVerified(v dlq.Verdict) verifiedFields {
	return verifiedFields{optional(string(v.Verified)), optional(string(v.Reason))}
}

// verdicts verifies those messages that were delivered. Without a database it verifies none.
func (s *Server) verdicts(ctx context.Context, messages ...*dlq.Message) (map[dlq.ID]dlq.Verdict, error) {
	verdicts := map[dlq.ID]dlq.Verdict{}
	var delivered []dlq.ID
	for _, m := range messages {
		if m.Ended() == dlq.ResolutionDelivered {
			delivered = append(delivered, m.ID)
		}
	}
	if len(delivered) == 0 || !s.guard.hasDatabase() {
		return verdicts, nil
	}
	return s.guard.Verdicts(ctx, delivered)
}

// verificationsView counts what a bulk retry has delivered.
type verificationsView struct {
	Yes      int64                        `json:"yes"`
	No       int64                        `json:"no"`
	Unknown  int64                        `json:"unknown"`
	CameBack int64                        `json:"came_back"`
	Reasons  map[dlq.VerifiedReason]int64 `json:"unknown_reasons"`
	// IsPartial is set when only the newest messages were counted.
	IsPartial bool `json:"partial"`
}

func (s *Server) verifyBulk(ctx context.Context, id dlq.ID) (*verificationsView, error) {
	v, err := scan(ctx, s, func() (dlq.Verifications, error) { return s.guard.VerifyJob(ctx, id) })
	if v.Reasons == nil {
		v.Reasons = map[dlq.VerifiedReason]int64{}
	}
	return new(verificationsView(v)), err
}
