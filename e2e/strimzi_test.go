package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.yaml.in/yaml/v3"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// strimziResource has the fields of Strimzi's resources that the examples use.
type strimziResource[Spec any] struct {
	APIVersion string `yaml:"apiVersion"` //nolint:tagliatelle // Kubernetes names it so
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string            `yaml:"name"`
		Namespace string            `yaml:"namespace"`
		Labels    map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Spec Spec `yaml:"spec"`
}

type strimziTopic struct {
	Partitions int32             `yaml:"partitions"`
	Replicas   int16             `yaml:"replicas"`
	Config     map[string]string `yaml:"config"`
}

type strimziUser struct {
	Authentication struct {
		Type string `yaml:"type"`
	} `yaml:"authentication"`
	Authorization struct {
		Type string `yaml:"type"`
		ACLs []struct {
			Resource struct {
				Type        string `yaml:"type"`
				Name        string `yaml:"name"`
				PatternType string `yaml:"patternType"` //nolint:tagliatelle // Strimzi names it so
			} `yaml:"resource"`
			Operations []string `yaml:"operations"`
		} `yaml:"acls"`
	} `yaml:"authorization"`
}

// strimziExample reads the resources of one of the examples.
func strimziExample[Spec any](t *testing.T, name, kind string) (resources []strimziResource[Spec]) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "strimzi", name))
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	for {
		var r strimziResource[Spec]
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return resources
		}
		require.NoError(t, err)
		require.Equal(t, []string{"kafka.strimzi.io/v1beta2", kind}, []string{r.APIVersion, r.Kind})
		require.Contains(t, r.Metadata.Labels, "strimzi.io/cluster")
		resources = append(resources, r)
	}
}

func TestTheStrimziTopicsHaveThePartitionsOfTheirTier(t *testing.T) {
	t.Parallel()
	partitions := map[string]int32{"system": 6, "business": 3, "service": 3}
	names := map[string]bool{}
	for _, topic := range strimziExample[strimziTopic](t, "topics.yaml", "KafkaTopic") {
		name := topic.Metadata.Name
		names[name] = true
		require.Equal(t, partitions[strings.Split(name, ".")[1]], topic.Spec.Partitions, name)
		require.EqualValues(t, 3, topic.Spec.Replicas, name)
		require.Equal(t, map[string]string{
			"cleanup.policy": "delete", "min.insync.replicas": "2", "retention.ms": strconv.FormatInt((30 * 24 * time.Hour).Milliseconds(), 10),
		}, topic.Spec.Config, name)
	}
	require.Len(t, names, 2*len(partitions))
	for name := range names {
		if strings.HasSuffix(name, ".dlq") {
			require.Contains(t, names, name+".archive")
		}
	}
}

// acl is one operation that is allowed.
type acl struct {
	resource  kmsg.ACLResourceType
	name      string
	operation kmsg.ACLOperation
}

// String writes the right as the manager's errors do.
func (a acl) String() string {
	return fmt.Sprintf("%s on the %s %s", a.operation, strings.ToLower(a.resource.String()), a.name)
}

// grant is the instruction to an operator in the manager's errors.
func (a acl) grant() string { return "grant " + a.String() + " to the manager's user" }

// original is the topic whose dead letters or archive the right is about.
func (a acl) original() string {
	return strings.TrimSuffix(strings.TrimSuffix(a.name, ".archive"), ".dlq")
}

func (a acl) builder() *kadm.ACLBuilder {
	b := kadm.NewACLs().Allow("User:" + kafkatest.User).AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(a.operation)
	if a.resource == kmsg.ACLResourceTypeGroup {
		return b.Groups(a.name)
	}
	return b.Topics(a.name)
}

// strimziACLs returns the rights in the example of a user.
func strimziACLs(t *testing.T) (acls []acl) {
	t.Helper()
	users := strimziExample[strimziUser](t, "user.yaml", "KafkaUser")
	require.Len(t, users, 1)
	require.Equal(t, kafkatest.User, users[0].Metadata.Name)
	require.Equal(t, "scram-sha-512", users[0].Spec.Authentication.Type)
	require.Equal(t, "simple", users[0].Spec.Authorization.Type)
	for _, rule := range users[0].Spec.Authorization.ACLs {
		require.Equal(t, "literal", rule.Resource.PatternType)
		resource, err := kmsg.ParseACLResourceType(rule.Resource.Type)
		require.NoError(t, err)
		for _, name := range rule.Operations {
			operation, err := kmsg.ParseACLOperation(name)
			require.NoError(t, err)
			acls = append(acls, acl{resource, rule.Resource.Name, operation})
		}
	}
	return acls
}

// strimzi is a system whose user has the rights of the example on a real broker, which denies
// everything else. The client and the admin may do everything.
type strimzi struct {
	*system
	client *kgo.Client
	admin  *kadm.Client
	worker *program
}

// strimziConsumers is the group that reads strimziOrders.
const (
	strimziOrders    = "shop.service.order.created.v1"
	strimziConsumers = "order-server.inventory-check"
)

// addresses has the addresses of a real cluster.
type addresses []string

func (a addresses) ListenAddrs() []string { return a }

func newStrimzi(t *testing.T, acls []acl) *strimzi {
	t.Helper()
	server := kafkatest.RealClusterOfVersion(t, kafkatest.Version, "allow.everyone.if.no.acl.found=false")
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	u, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	s := &strimzi{system: &system{t: t, pool: dbtest.Pool(t, dbtest.URL(t))}, client: client, admin: kadm.NewClient(client)}
	exists := map[string]bool{}
	for _, topic := range strimziExample[strimziTopic](t, "topics.yaml", "KafkaTopic") {
		configs := map[string]*string{}
		for key, value := range topic.Spec.Config {
			configs[key] = &value
		}
		configs["min.insync.replicas"] = new("1") // the cluster has one broker
		_, err := s.admin.CreateTopic(t.Context(), topic.Spec.Partitions, 1, configs, topic.Metadata.Name)
		require.NoError(t, err)
		exists[topic.Metadata.Name] = true
	}
	for _, a := range acls {
		if a.resource == kmsg.ACLResourceTypeTopic && !exists[a.name] {
			_, err := s.admin.CreateTopic(t.Context(), 3, 1, nil, a.name)
			require.NoError(t, err)
			exists[a.name] = true
		}
		s.grant(a)
	}
	s.env = append(environment(t, u, temporaltest.Address(t), addresses(server.SASLBrokers())),
		"DLQ_KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT", "DLQ_KAFKA_SASL_MECHANISM=SCRAM-SHA-512",
		"DLQ_KAFKA_SASL_USER="+kafkatest.User, "DLQ_KAFKA_SASL_PASSWORD="+kafkatest.Password,
		"DLQ_VERIFY_INTERVAL=1s", "DLQ_VERIFY_CONSUMER_GROUPS="+strimziOrders+"="+strimziConsumers)
	s.worker = s.startWorker()
	s.startAPI()
	return s
}

// grant allows the operation. It returns once the broker knows the right, because the controller answers
// earlier.
func (s *strimzi) grant(a acl) {
	s.t.Helper()
	results, err := s.admin.CreateACLs(s.t.Context(), a.builder())
	require.NoError(s.t, err)
	for _, result := range results {
		require.NoError(s.t, result.Err)
	}
	s.eventually("the broker knows the right", func() bool {
		known, err := s.admin.DescribeACLs(s.t.Context(), a.builder())
		require.NoError(s.t, err)
		return len(known) == 1 && known[0].Err == nil && len(known[0].Described) == 1
	})
}

func (s *strimzi) revoke(a acl) {
	s.t.Helper()
	results, err := s.admin.DeleteACLs(s.t.Context(), a.builder())
	require.NoError(s.t, err)
	require.Len(s.t, results, 1)
	require.NoError(s.t, results[0].Err)
	require.Len(s.t, results[0].Deleted, 1)
}

// letter produces a dead letter of an original topic.
func (s *strimzi) letter(topic string, more ...kgo.RecordHeader) {
	s.t.Helper()
	s.produce(&kgo.Record{Topic: topic + ".dlq", Key: []byte("k"), Value: []byte("{}"), Headers: append(more,
		kgo.RecordHeader{Key: "original_topic", Value: []byte(topic)}, kgo.RecordHeader{Key: "error", Value: []byte("boom")})})
}

// exhausted produces a dead letter whose retries are used up.
func (s *strimzi) exhausted(topic string) {
	s.t.Helper()
	var sent string
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), "SELECT id::text FROM dlq.dlq_messages WHERE status = 'RESOLVED' AND original_topic = $1 LIMIT 1", topic).Scan(&sent))
	s.letter(topic, kgo.RecordHeader{Key: "dlq-message-id", Value: []byte(sent)}, kgo.RecordHeader{Key: "dlq-retry-count", Value: []byte("3")})
}

// pointer produces a record, and the dead letter that a share group writes for the record.
func (s *strimzi) pointer(topic string) {
	s.t.Helper()
	original := s.produce(&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("pointed")})
	header := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: "__dlq.errors." + name, Value: []byte(value)}
	}
	s.produce(&kgo.Record{Topic: topic + ".dlq", Headers: []kgo.RecordHeader{
		header("topic", topic), header("partition", "0"), header("offset", strconv.FormatInt(original.Offset, 10)), header("group", "share"),
	}})
}

func (s *strimzi) produce(r *kgo.Record) *kgo.Record {
	s.t.Helper()
	require.NoError(s.t, s.client.ProduceSync(s.t.Context(), r).FirstErr())
	return r
}

// stored waits until n messages of a topic are PENDING, and returns the id of one of them.
func (s *strimzi) stored(topic string, n int) (id string) {
	s.t.Helper()
	where := "status = 'PENDING' AND original_topic = '" + topic + "'"
	s.eventually("it is stored", func() bool { return s.rows(where) == n })
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), "SELECT id::text FROM dlq.dlq_messages WHERE "+where+" LIMIT 1").Scan(&id))
	return id
}

// retry retries a message and returns its status after that.
func (s *strimzi) retry(id string) string {
	s.t.Helper()
	_, answer := s.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", "Prefer", "wait=30")
	return fmt.Sprint(answer["status"])
}

// message is the message as the API shows it.
func (s *strimzi) message(id string) map[string]any {
	s.t.Helper()
	_, answer := s.call(http.MethodGet, "/api/v1/dlq/messages/"+id)
	return answer
}

// says waits until the worker's log says which right is missing.
func (s *strimzi) says(a acl) {
	s.t.Helper()
	s.eventually("the log says to grant "+a.String(), func() bool { return strings.Contains(s.worker.log.tail(1<<20), a.grant()) })
}

// commit commits the end of the topic for the group of its consumers.
func (s *strimzi) commit(topic string) {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.t.Context(), topic)
	require.NoError(s.t, err)
	require.NoError(s.t, s.admin.CommitAllOffsets(s.t.Context(), strimziConsumers, ends.Offsets()))
}

// lag opens a transaction in partition 1 of a topic, so that the ingest cannot reach the partition's end.
// The returned function ends the transaction.
func (s *strimzi) lag(topic string) (end func()) {
	s.t.Helper()
	brokers, _ := s.client.OptValue(kgo.SeedBrokers).([]string)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(topic), kgo.TransactionTimeout(10*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(s.t, err)
	s.t.Cleanup(client.Close)
	require.NoError(s.t, client.BeginTransaction())
	require.NoError(s.t, client.ProduceSync(s.t.Context(), &kgo.Record{Topic: topic, Partition: 1}).FirstErr())
	return func() { require.NoError(s.t, client.EndTransaction(s.t.Context(), kgo.TryAbort)) }
}

// archived counts the records of the archive topic.
func (s *strimzi) archived(topic string) (n int64) {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.t.Context(), topic+".dlq.archive")
	require.NoError(s.t, err)
	ends.Each(func(end kadm.ListedOffset) { n += end.Offset })
	return n
}

// in returns the same system for a subtest.
func (s *strimzi) in(t *testing.T) *strimzi {
	other := *s
	other.system = new(*s.system)
	other.t = t
	return &other
}

func TestTheStrimziUserHasTheRightsThatTheManagerNeedsAndNoOther(t *testing.T) { //nolint:tparallel // the rights of a topic are removed in turn
	t.Parallel()
	acls := strimziACLs(t)
	s := newStrimzi(t, acls)
	families, groups := map[string][]acl{}, []acl{} // the rights of each original topic, and the rights of groups
	for _, a := range acls {
		if a.resource == kmsg.ACLResourceTypeGroup {
			groups = append(groups, a)
		} else {
			families[a.original()] = append(families[a.original()], a)
		}
	}
	s.worksInFull(families)

	// Each topic, with its dead-letter and its archive topic, lacks one right at a time.
	ends := []func(){}
	for topic := range families {
		ends = append(ends, s.lag(topic+".dlq"))
	}
	t.Run("topics", func(t *testing.T) {
		for topic, family := range families {
			t.Run(topic, func(t *testing.T) {
				t.Parallel()
				s.lacksEach(t, family)
			})
		}
	})
	for _, end := range ends {
		end()
	}
	s.lacksEach(t, groups)
}

func (s *strimzi) lacksEach(t *testing.T, acls []acl) {
	t.Helper()
	for _, a := range acls {
		t.Run(a.String(), func(t *testing.T) { s.in(t).lacks(a) })
	}
}

// worksInFull does everything that needs Kafka, while the user has all rights.
func (s *strimzi) worksInFull(families map[string][]acl) {
	t := s.t
	for topic, family := range families {
		s.letter(topic)
		require.Equal(t, "RESOLVED", s.retry(s.stored(topic, 1)))
		s.letter(topic)
		s.letter(topic)
		s.stored(topic, 2)
		status, job := s.call(http.MethodPost, "/api/v1/dlq/"+topic+".dlq/retry-all", "Prefer", "wait=30")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, 2, count(job, "retried"), job)
		s.exhausted(topic)
		if slices.Contains(family, acl{kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead}) {
			s.pointer(topic)
			id := s.stored(topic, 1)
			require.Equal(t, len("pointed"), count(s.message(id)["pointed"].(map[string]any)["value"].(map[string]any), "size"))
			require.Equal(t, "RESOLVED", s.retry(id))
		}
	}
	for topic := range families {
		s.eventually("it is archived", func() bool { return s.archived(topic) == 1 })
	}
	s.commit(strimziOrders)
	s.eventually("it is verified", func() bool {
		_, list := s.call(http.MethodGet, "/api/v1/dlq/"+strimziOrders+".dlq?verified=yes")
		return len(list["messages"].([]any)) > 0
	})
	_, groups := s.call(http.MethodGet, "/api/v1/groups")
	group := groups["groups"].([]any)[0].(map[string]any)["id"].(string)
	_, fixed := s.call(http.MethodPost, "/api/v1/groups/"+group+"/fixed")
	require.NotEmpty(t, fixed["marks"], "the ends of the original topic")

	s.eventually("the doctor finds nothing", func() bool { // a busy Temporal may cancel the doctor's call
		said, code := s.doctor()
		require.NotContains(t, said, "grant")
		return code == 0
	})
	said := s.worker.log.tail(1 << 20)
	require.Equal(t, strings.Count(said, "the group share"), strings.Count(said, "AUTHORIZATION_FAILED"), "a share group needs no right")
}

// lacks removes a right, requires that the operator learns which right is missing, and grants it again.
func (s *strimzi) lacks(a acl) {
	t, topic := s.t, a.original()
	s.revoke(a)
	switch {
	case a.resource == kmsg.ACLResourceTypeGroup && a.operation == kmsg.ACLOperationRead:
		s.eventually("the worker is not ready", func() bool { return s.worker.readiness() == http.StatusServiceUnavailable })
		s.says(a)
		said, code := s.doctor()
		require.Equal(t, 1, code)
		require.Contains(t, said, a.String())
		s.grant(a)
		s.letter(strimziOrders)
		require.Equal(t, "RESOLVED", s.retry(s.stored(strimziOrders, 1)))
	case a.resource == kmsg.ACLResourceTypeGroup:
		s.letter(strimziOrders)
		id := s.stored(strimziOrders, 1)
		require.Equal(t, "RESOLVED", s.retry(id))
		s.says(a)
		s.eventually("nobody can say whether it was consumed", func() bool { return s.message(id)["verified_reason"] == "refused" })
		s.grant(a)
		s.commit(strimziOrders)
		s.eventually("it is verified", func() bool { return s.message(id)["verified"] == "yes" })
	case a.operation == kmsg.ACLOperationDescribeConfigs:
		s.says(a)
		s.grant(a)
	case strings.HasSuffix(a.name, ".archive"):
		before := s.archived(topic)
		s.exhausted(topic)
		s.says(a)
		s.grant(a)
		s.eventually("it is archived", func() bool { return s.archived(topic) == before+1 })
	case strings.HasSuffix(a.name, ".dlq"):
		s.letter(topic)
		s.says(a)
		s.grant(a)
		require.Equal(t, "RESOLVED", s.retry(s.stored(topic, 1)))
	default:
		if a.operation == kmsg.ACLOperationRead {
			s.pointer(topic)
		} else {
			s.letter(topic)
		}
		id := s.stored(topic, 1)
		require.NotEqual(t, "RESOLVED", s.retry(id))
		attempts := s.message(id)["attempts"].([]any)
		require.Contains(t, attempts[len(attempts)-1].(map[string]any)["error"], a.grant())
		s.grant(a)
		require.Equal(t, "RESOLVED", s.retry(id))
	}
}
