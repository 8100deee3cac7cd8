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

// chaosBroker is a Kafka that keeps its state and its address over a stop and
// over a kill. A real one is a *kafkatest.Server.
type chaosBroker interface {
	Brokers() []string
	Stop()
	Kill()
	Start(t testing.TB)
}

// freezer is a broker that can be made to wait.
type freezer interface {
	Freeze()
	Thaw()
}

// holding does something while the broker, if it can, holds back every answer:
// then what is under way has been sent and not been acknowledged.
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

// The embedded broker runs in a process of its own, so that it can be killed.
// This test program is that process when these are set.
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

// honourMinISR makes the embedded broker refuse what a real one would: records
// for a topic that wants more replicas in sync than its only one.
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

// Brokers is host:port.
func (b *fakeBroker) Brokers() []string { return []string{b.address} }

// Start returns when it serves.
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

// Stop shuts it down in good order.
func (b *fakeBroker) Stop() { b.process.end(syscall.SIGTERM, 20*time.Second) }

// Kill ends it as a crash would.
func (b *fakeBroker) Kill() { b.process.end(syscall.SIGKILL, 20*time.Second) }

// Freeze and Thaw stop the process for a while. What is sent to it meanwhile
// waits in the kernel, and is carried out even if its sender has died since.
func (b *fakeBroker) Freeze() { b.process.signal(syscall.SIGSTOP) }

// Thaw is the end of Freeze.
func (b *fakeBroker) Thaw() { b.process.signal(syscall.SIGCONT) }
