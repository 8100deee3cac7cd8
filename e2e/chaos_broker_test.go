package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/internal/kafkatest"
)

// chaosBroker is a Kafka broker that keeps its state and its address when it is stopped or
// killed. The real broker is a *kafkatest.Server.
type chaosBroker interface {
	Brokers() []string
	Stop()
	Kill()
	Start(t testing.TB)
}

// freezer is a broker that can be suspended.
type freezer interface {
	Freeze()
	Thaw()
}

// holding calls a function while the broker is suspended, if the broker is a freezer. During the call,
// records in flight have been sent, but are not acknowledged.
func (c *chaos) holding(d time.Duration, do func()) {
	if broker, can := c.broker.(freezer); can {
		broker.Freeze()
		defer broker.Thaw()
		pause(c.t.Context(), d)
	}
	do()
}

func (c *chaos) startBroker() {
	if c.real {
		c.broker = kafkatest.RealCluster(c.t)
	} else {
		c.broker = newFakeBroker(c.t)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.Brokers()...))
	require.NoError(c.t, err)
	defer client.Close()
	plain, targets := []string{handTopic, cancelTopic}, []string{}
	for _, topic := range chaosTopics {
		plain, targets = append(plain, topic.dlq), append(targets, topic.targets[:]...)
	}
	if c.real {
		createOnGhost(c.t, client, targets...)
	} else {
		plain = append(plain, targets...)
	}
	for _, name := range plain {
		_, err := kadm.NewClient(client).CreateTopic(c.t.Context(), 3, 1, nil, name)
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			require.NoError(c.t, err)
		}
	}
}

// The embedded broker runs in a separate process, so that it can be killed. This test
// program becomes that process when these variables are set.
const (
	fakeBrokerDir  = "DLQ_E2E_BROKER_DIR"
	fakeBrokerPort = "DLQ_E2E_BROKER_PORT"
)

func init() {
	if dir := os.Getenv(fakeBrokerDir); dir != "" {
		os.Exit(runFakeBroker(dir))
	}
}

func runFakeBroker(dir string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	at, _ := strconv.Atoi(os.Getenv(fakeBrokerPort))
	cluster, err := kfake.NewCluster(kfake.Ports(at), kfake.DataDir(dir), kfake.ClusterID("chaos"), kfake.DefaultNumPartitions(3))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	honourMinISR(cluster)
	fmt.Println(cluster.ListenAddrs()[0])
	<-ctx.Done()
	cluster.Close()
	return 0
}

// honourMinISR makes the embedded broker behave like a real broker: it refuses records for
// a topic whose min.insync.replicas is greater than its one replica.
func honourMinISR(cluster *kfake.Cluster) {
	var mu sync.Mutex
	refused := map[string]*kfake.FaultHandle{}
	cluster.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range request.(*kmsg.IncrementalAlterConfigsRequest).Resources {
			for _, config := range resource.Configs {
				if config.Name != "min.insync.replicas" || config.Value == nil {
					continue
				}
				if before := refused[resource.ResourceName]; before != nil {
					before.Remove()
					delete(refused, resource.ResourceName)
				}
				if *config.Value != "1" {
					refused[resource.ResourceName] = cluster.Fault(kfake.Fault{
						Keys: []kmsg.Key{kmsg.Produce}, Topic: resource.ResourceName, Err: kerr.NotEnoughReplicas, Count: -1,
					})
				}
			}
		}
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
}

// fakeBroker is the process of an embedded broker.
type fakeBroker struct {
	dir, address string
	process      *child
}

func newFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	b := &fakeBroker{dir: t.TempDir(), address: freeAddress(t)}
	b.Start(t)
	t.Cleanup(b.Kill)
	return b
}

// Brokers returns the broker's host:port.
func (b *fakeBroker) Brokers() []string { return []string{b.address} }

// Start returns when the broker accepts connections.
func (b *fakeBroker) Start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), fakeBrokerDir+"="+b.dir, fakeBrokerPort+"="+port(b.address))
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)
	b.process, err = startChild(cmd)
	require.NoError(t, err)
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, b.address+"\n", line)
}

// Stop shuts the broker down cleanly.
func (b *fakeBroker) Stop() { b.process.end(syscall.SIGTERM, 20*time.Second) }

// Kill ends the broker's process as a crash would.
func (b *fakeBroker) Kill() { b.process.end(syscall.SIGKILL, 20*time.Second) }

// Freeze suspends the process. Requests that are sent meanwhile wait in the kernel, and are
// handled after Thaw even if their sender has died.
func (b *fakeBroker) Freeze() { b.process.signal(syscall.SIGSTOP) }

// Thaw resumes the process.
func (b *fakeBroker) Thaw() { b.process.signal(syscall.SIGCONT) }
