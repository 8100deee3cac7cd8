package api

import (
	"context"

	"dlqmanager/dlq"
)

// facts has what other tables tell about messages.
type facts struct {
	operations map[string]dlq.ID // operations that asked for the retries, by the tokens of their owners
	verdicts   map[dlq.ID]dlq.Verdict
}

func (s *Server) factsOf(ctx context.Context, hops ...dlq.Hop) (known facts, err error) {
	if known.operations, err = s.operationsOf(ctx, hops); err == nil {
		known.verdicts, err = s.verdicts(ctx, views(hops, func(h *dlq.Hop) *dlq.Message { return &h.Message }))
	}
	return known, err
}

// verdicts tells whether delivered messages are verified. It is empty without a database.
func (s *Server) verdicts(ctx context.Context, messages []*dlq.Message) (map[dlq.ID]dlq.Verdict, error) {
	var delivered []dlq.ID
	for _, m := range messages {
		if m.Ended() == dlq.ResolutionDelivered {
			delivered = append(delivered, m.ID)
		}
	}
	if len(delivered) == 0 || !s.guard.hasDatabase() {
		return map[dlq.ID]dlq.Verdict{}, nil
	}
	return s.guard.Verdicts(ctx, delivered)
}

// verificationsView counts the verdicts about the messages that a bulk retry has delivered.
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
	v, err := scan(ctx, s, true, func() (dlq.Verifications, error) { return s.guard.VerifyJob(ctx, id) })
	if v.Reasons == nil {
		v.Reasons = map[dlq.VerifiedReason]int64{}
	}
	return new(verificationsView(v)), err
}
