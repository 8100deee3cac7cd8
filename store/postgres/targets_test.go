package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func TestEveryMarkOfATargetIsReplaced(t *testing.T) {
	t.Parallel()
	s := New(nil, dlqtest.Topics(t))
	var err error
	s.Targets, err = dlq.NewTargets(dlqtest.Topics(t), map[string]string{"orders": "orders-2"}, nil, nil)
	require.NoError(t, err)
	for _, sql := range []string{claimPageSQL, claimQueueSQL, claimedPageSQL, finalizePageSQL, countBulkSQL} {
		require.Regexp(t, `\.original_topic /\*`, sql)
		for _, target := range []string{"", "orders-3"} {
			targeted := s.targeted(sql, &dlq.BulkSpec{TargetTopic: target})
			require.NotRegexp(t, `/\* (target|route) \*/`, targeted)
			require.NotRegexp(t, `\w(COALESCE|@target_topic)`, targeted, "an alias that ends with another one")
		}
	}
}
