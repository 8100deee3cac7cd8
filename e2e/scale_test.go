package e2e

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

func TestAWorkerThatJoinsSharesTheLanesAndCarriesOnAlone(t *testing.T) {
	t.Parallel()
	// With this number of lanes, each worker gets some lanes when they are assigned again.
	const lanes = 16
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	s.env = append(s.env, "DLQ_JOBS_LANES="+strconv.Itoa(lanes))
	first := s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })

	// One worker would need 25 seconds. Lanes end their time slice after 15 seconds.
	quick := slowPublish(cluster, 1250*time.Microsecond)
	status, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	bulk := "/api/v1/jobs/" + answer["job_id"].(string)
	s.eventually("the first worker sends", func() bool { return first.delivered(t) > 0 })

	second := s.startWorker()
	s.eventually("the second worker has a lane", func() bool { return second.delivered(t) > 0 })
	before, since := first.delivered(t), second.delivered(t)
	s.eventually("both send", func() bool { return first.delivered(t) > before && second.delivered(t) > since })

	first.kill(t)
	close(quick)
	_, answer = s.call(http.MethodGet, bulk)
	require.Equal(t, "RUNNING", answer["state"])
	s.eventually("the job ends", func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return answer["state"] != "RUNNING"
	})
	s.requireAllSent(cluster, answer, messages, lanes*dlq.PageSize)
}

// slowPublish delays the answer of a produce request by a time for each record, one request
// after another for each connection, until quick is closed. So the time does not depend on
// the size of the requests.
func slowPublish(cluster *kfake.Cluster, pace time.Duration) (quick chan struct{}) {
	quick = make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		records := recordsIn(request.(*kmsg.ProduceRequest))
		cluster.SleepControl(func() {
			select {
			case <-time.After(time.Duration(records) * pace):
			case <-quick:
			}
		})
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	return quick
}

func recordsIn(request *kmsg.ProduceRequest) int {
	records := 0
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			var batch kmsg.RecordBatch
			if batch.ReadFrom(partition.Records) == nil {
				records += int(batch.NumRecords)
			}
		}
	}
	return records
}

var deliveredTotal = regexp.MustCompile(`(?m)^dlq_retried_total\{category="",result="delivered"\} (\S+)$`)

// delivered is how many messages this process has sent back.
func (p *program) delivered(t *testing.T) int {
	t.Helper()
	sample := deliveredTotal.FindStringSubmatch(p.metrics(t))
	if sample == nil {
		return 0
	}
	n, err := strconv.ParseFloat(sample[1], 64)
	require.NoError(t, err)
	return int(n)
}
