package dlq_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func grant(t *testing.T, role dlq.Role, topics ...string) dlq.Grant {
	t.Helper()
	g, err := dlq.NewGrant(role, topics)
	require.NoError(t, err)
	return g
}

func TestEachRoleHasThePermissionsOfTheLesserOnes(t *testing.T) {
	t.Parallel()
	for i, role := range dlq.Roles[1:] {
		require.Subset(t, role.Permissions(), dlq.Roles[i].Permissions())
		require.Greater(t, len(role.Permissions()), len(dlq.Roles[i].Permissions()))
	}
	require.NotContains(t, dlq.RoleViewer.Permissions(), dlq.PermMessageRetry)
	require.NotContains(t, dlq.RoleOperator.Permissions(), dlq.PermMessageDelete)
	require.Empty(t, dlq.Role("root").Permissions())
}

func TestAGrantIsLimitedToItsTopics(t *testing.T) {
	t.Parallel()
	p := dlq.Principal{Grants: []dlq.Grant{grant(t, dlq.RoleOperator, "orders.*", "bills?dlq"), grant(t, dlq.RoleViewer, "stock.dlq")}}
	for topic, want := range map[string]struct{ read, retry bool }{
		"orders.dlq": {true, true}, "bills.dlq": {true, true}, "stock.dlq": {true, false},
		"ordersXdlq": {}, "my.orders.dlq": {}, "": {}, "a\norders.dlq": {}, "orders.a\nb": {true, true}, // as in PostgreSQL

	} {
		require.Equal(t, want.read, p.MayOn(dlq.PermMessageRead, topic), topic)
		require.Equal(t, want.retry, p.MayOn(dlq.PermMessageRetry, topic), topic)
		require.Equal(t, want.read, regexp.MustCompile(p.Within(dlq.PermMessageRead)).MatchString(topic), topic)
		require.Equal(t, want.retry, regexp.MustCompile(p.Within(dlq.PermMessageRetry)).MatchString(topic), topic)
		require.False(t, regexp.MustCompile(p.Within(dlq.PermMessageDelete)).MatchString(topic), topic)
	}
	require.True(t, p.May(dlq.PermMessageRetry))
	require.False(t, p.May(dlq.PermMessageDelete))
}

func TestAGrantWithoutTopicsIsForAll(t *testing.T) {
	t.Parallel()
	for _, topics := range [][]string{nil, {"*"}, {"orders.dlq", "*"}} {
		p := dlq.Principal{Grants: []dlq.Grant{grant(t, dlq.RoleViewer, "a"), grant(t, dlq.RoleViewer, topics...)}}
		require.True(t, p.MayOn(dlq.PermMessageRead, "any.dlq"))
		require.Empty(t, p.Within(dlq.PermMessageRead))
	}
}

func TestBadGrantsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := dlq.NewGrant("root", nil)
	require.ErrorContains(t, err, `unknown role "root"`)
	_, err = dlq.NewGrant(dlq.RoleViewer, []string{"(a|b)"})
	require.ErrorContains(t, err, "not a pattern of topic names")
	_, err = dlq.NewGrant(dlq.RoleViewer, []string{""})
	require.Error(t, err)
	_, err = dlq.NewGrant(dlq.RoleViewer, slices.Repeat([]string{"orders.dlq"}, 2000))
	require.ErrorContains(t, err, "more than 16384")
}
