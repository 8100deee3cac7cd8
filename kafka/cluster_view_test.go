package kafka_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// viewAs returns the view of a user with these rights, such as "READ orders.dlq". A right holds for all
// names with the prefix.
func viewAs(t *testing.T, needs kafka.Needs, rights []string) kafka.ClusterView {
	t.Helper()
	acls := make([]kfake.ACL, 0, len(rights))
	for _, right := range rights {
		operation, name, _ := strings.Cut(right, " ")
		a := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypePrefixed, Allow: true}
		if group, ok := strings.CutPrefix(name, "group "); ok {
			a.Resource, a.Name = kmsg.ACLResourceTypeGroup, group
		}
		var err error
		a.Operation, err = kmsg.ParseACLOperation(operation)
		require.NoError(t, err)
		acls = append(acls, a)
	}
	cluster := kafkatest.FakeCluster(t, kfake.EnableACLs(), kfake.EnableSASL(), kfake.User(kafka.Plain, "dlq", "secret", acls...),
		kfake.SeedTopics(1, "orders", "refunds", "payments", "orders.dlq", "orders.dlq.archive", "bills-dlt"))
	view, err := kafka.ViewCluster(t.Context(), client(t, cluster.ListenAddrs(), kgo.SASL(plain.Auth{User: "dlq", Pass: "secret"}.AsMechanism())), needs)
	require.NoError(t, err)
	return view
}

func TestTheViewOfAClusterNamesEachMissingRight(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics([]string{"*.dlq"}, nil)
	require.NoError(t, err)
	routes, err := dlq.NewTargets(topics, map[string]string{"never": "refunds"}, nil, nil)
	require.NoError(t, err)
	needs := kafka.Needs{Topics: topics, Routes: routes, Targets: []string{"payments", "refunds"}, Group: "dlq-manager", Consumers: []string{"shop"},
		Archives: dlq.NewArchiveTopics(dlq.DefaultArchiveTopic, topics)}
	// DESCRIBE orders includes orders.dlq.
	all := []string{"DESCRIBE orders", "DESCRIBE refunds", "DESCRIBE payments", "DESCRIBE bills", "DESCRIBE orders.dlq",
		"READ orders.dlq", "DESCRIBE_CONFIGS orders.dlq", "WRITE orders", "WRITE payments", "WRITE refunds",
		"READ group dlq-manager", "DESCRIBE group shop"}
	whole := kafka.ClusterView{Brokers: 1, DeadLetters: []string{"orders.dlq"}, Unmatched: []string{"bills-dlt"}}
	require.Equal(t, whole, viewAs(t, needs, all))
	for right, want := range map[string]func(*kafka.ClusterView){
		"READ orders.dlq":             func(s *kafka.ClusterView) { s.Denied = []string{"READ on the topic orders.dlq"} },
		"DESCRIBE_CONFIGS orders.dlq": func(s *kafka.ClusterView) { s.DeniedReports = []string{"DESCRIBE_CONFIGS on the topic orders.dlq"} },
		"WRITE payments":              func(s *kafka.ClusterView) { s.Denied = []string{"WRITE on the topic payments"} },
		"WRITE orders": func(s *kafka.ClusterView) {
			s.Denied = []string{"WRITE on the topic orders", "WRITE on the topic orders.dlq.archive"}
		},
		"READ group dlq-manager": func(s *kafka.ClusterView) { s.Denied = []string{"READ on the group dlq-manager"} },
		"DESCRIBE group shop":    func(s *kafka.ClusterView) { s.DeniedReports = []string{"DESCRIBE on the group shop"} },
	} {
		expected := whole
		want(&expected)
		require.Equal(t, expected, viewAs(t, needs, slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == right })), right)
	}

	hidden := viewAs(t, needs, []string{"DESCRIBE orders.dlq"})
	require.Equal(t, kafka.ClusterView{Brokers: 1, DeadLetters: []string{"orders.dlq"}, Missing: []string{"payments", "refunds"},
		Denied:        []string{"READ on the group dlq-manager", "READ on the topic orders.dlq", "WRITE on the topic orders.dlq.archive"},
		DeniedReports: []string{"DESCRIBE on the group shop", "DESCRIBE_CONFIGS on the topic orders.dlq"}}, hidden)
	require.Equal(t, kafka.ClusterView{Brokers: 1, Missing: []string{"payments", "refunds"}, Denied: []string{"READ on the group dlq-manager"},
		DeniedReports: []string{"DESCRIBE on the group shop"}}, viewAs(t, needs, []string{"DESCRIBE group dlq-manager"}), "DESCRIBE is not enough")
}

func TestTheViewOfAClusterWithManyTopics(t *testing.T) {
	t.Parallel()
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("topic-%03d.dlq", i)
	}
	topics, err := dlq.NewTopics([]string{"*.dlq"}, nil)
	require.NoError(t, err)
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, names...))
	view, err := kafka.ViewCluster(t.Context(), client(t, cluster.ListenAddrs()), kafka.Needs{Topics: topics, Group: "dlq-manager",
		Archives: dlq.NewArchiveTopics(dlq.DefaultArchiveTopic, topics)})
	require.NoError(t, err)
	require.Equal(t, names, view.DeadLetters)
	require.Len(t, view.MissingArchives, 1000)
	require.Empty(t, view.Denied, "the cluster has no authorizer")
}
