package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Users of the SASL listener, by SCRAM-SHA-512 and by PLAIN.
const (
	User     = "dlq-manager"
	Password = "correct-horse"
	// Outsider may authenticate, but may not write to a topic that has an access list.
	Outsider         = "outsider"
	OutsiderPassword = "let-me-in"
)

// Server is one real Kafka node: a broker, which may also be a controller.
type Server struct {
	dir, jars, heap string
	// plain and sasl are host:port of the two listeners, and do not change in a restart.
	// A broker of a Cluster has no sasl listener.
	plain, sasl string

	mu   sync.Mutex
	node *process
}

// process is one run of the server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

const startTimeout = 60 * time.Second

// newServer formats the storage and starts the server. dir must be empty. The further
// properties are added to its configuration.
func newServer(dir, version string, further ...string) (*Server, error) {
	lib, err := jars(version)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, jars: lib, heap: "320m", plain: local(ports[0]), sasl: local(ports[1])}
	if err := s.format(append(s.properties(local(ports[2])), further...), scramUsers()...); err != nil {
		return nil, err
	}
	return s, s.start()
}

// scramUsers are the arguments of format that create the users.
func scramUsers() []string {
	return []string{
		"--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", User, Password),
		"--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", Outsider, OutsiderPassword),
	}
}

// format writes the configuration and prepares the empty storage.
func (s *Server) format(properties []string, args ...string) error {
	text := strings.Join(properties, "\n") + "\n"
	if err := os.WriteFile(s.file("server.properties"), []byte(text), 0o600); err != nil {
		return err
	}
	format := s.java("kafka.tools.StorageTool", append([]string{"format", "--cluster-id", "ZGxxLW1hbmFnZXItdGVzdA",
		"--config", s.file("server.properties")}, args...)...)
	if output, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format the storage: %w\n%s", err, output)
	}
	return nil
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) java(class string, args ...string) *exec.Cmd {
	jvm := []string{
		"-Xms64m", "-Xmx" + s.heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // starts fast, stays small
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(s.jars, "*"), class,
	}
	return exec.Command("java", append(jvm, args...)...)
}

const scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

func plainModule() string {
	return fmt.Sprintf(`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s" user_%s="%s";`,
		User, Password, Outsider, OutsiderPassword)
}

func (s *Server) properties(controller string) []string {
	return append(s.common(),
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@"+controller,
		"listeners=PLAINTEXT://"+s.plain+",SASL_PLAINTEXT://"+s.sasl+",CONTROLLER://"+controller,
		"advertised.listeners=PLAINTEXT://"+s.plain+",SASL_PLAINTEXT://"+s.sasl,
		"sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
		"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config="+scramModule,
		"listener.name.sasl_plaintext.plain.sasl.jaas.config="+plainModule(),
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS",
		"allow.everyone.if.no.acl.found=true",
	)
}

// common has the properties of all brokers.
func (s *Server) common() []string {
	return []string{
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT",
		"log.dirs=" + s.file("data"),
		"num.partitions=1",
		"auto.create.topics.enable=true", // the default; it creates a topic whose name a client misspells
		"offsets.topic.num.partitions=1",
		"offsets.topic.replication.factor=1",
		"transaction.state.log.num.partitions=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		"log.cleaner.dedupe.buffer.size=4194304", // the default takes 128 MiB of the heap
		"num.network.threads=2",
		"num.io.threads=4",
	}
}

// start runs the server and waits until it answers.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	output, err := os.OpenFile(s.file("server.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := s.java("kafka.Kafka", s.file("server.properties"))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so
		// that thread must live as long as the child.
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.node = p
	if err := s.waitUntilUp(p); err != nil {
		s.end(syscall.SIGKILL)
		log, _ := os.ReadFile(s.file("server.log"))
		return fmt.Errorf("kafka did not start: %w\n%s", err, tail(log, 4000))
	}
	return nil
}

func (s *Server) waitUntilUp(p *process) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.plain))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		attempt, stop := context.WithTimeout(ctx, time.Second)
		err := client.Ping(attempt)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errors.New("it ended by itself")
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end sends the signal to the server's process and waits for its end.
func (s *Server) end(signal syscall.Signal) {
	if s.node == nil {
		return
	}
	_ = s.node.cmd.Process.Signal(signal)
	select {
	case <-s.node.done:
	case <-time.After(20 * time.Second):
		_ = s.node.cmd.Process.Kill()
		<-s.node.done
	}
	s.node = nil
}

func (s *Server) stop(signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(signal)
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// freePorts returns ports that are free now. If another program takes a port before Kafka
// does, the error contains Kafka's log, which says so.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
