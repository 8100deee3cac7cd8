package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// build builds the programs, unless they are built already.
func (b *bench) build(ctx context.Context) error {
	if b.programs != "" {
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	b.step("building the programs")
	folder := filepath.Join(b.dir, "programs")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-o", folder+string(os.PathSeparator), "./cmd/api", "./cmd/worker")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, output)
	}
	b.programs = folder
	return nil
}

// program is one running process of the manager.
type program struct {
	command *exec.Cmd
	exited  chan struct{}
	base    string
	log     string
}

// site has the services that the programs of one measurement use.
type site struct {
	db       *database
	broker   *broker
	temporal *temporal
	queue    string
}

func (b *bench) newSite(db *database, k *broker, t *temporal) *site {
	return &site{db: db, broker: k, temporal: t, queue: fmt.Sprintf("bench-%d", queues.Add(1))}
}

// start runs the api or the worker and waits until it is ready. more are further variables of the process's
// environment.
func (b *bench) start(ctx context.Context, s *site, name string, more ...string) (*program, error) {
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	database, err := url.Parse(b.postgres.URL(s.db.name))
	if err != nil {
		return nil, err
	}
	p := &program{exited: make(chan struct{}), base: "http://127.0.0.1:" + port, log: filepath.Join(b.dir, name+"-"+port+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	p.command = exec.Command(filepath.Join(b.programs, name))
	p.command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir,
		"DLQ_DATABASE_HOST=" + database.Hostname(), "DLQ_DATABASE_PORT=" + database.Port(), "DLQ_DATABASE_NAME=" + s.db.name,
		"DLQ_DATABASE_USER=" + database.User.Username(), "DLQ_DATABASE_SSL_MODE=disable",
		"DLQ_KAFKA_BROKERS=" + strings.Join(s.broker.addresses, ","),
		"DLQ_TEMPORAL_ADDRESS=" + s.temporal.server.Address, "DLQ_TEMPORAL_TASK_QUEUE=" + s.queue,
		"DLQ_SERVER_PORT=" + port, "DLQ_WORKER_METRICS_PORT=" + port, "DLQ_JOBS_LANES=" + strconv.Itoa(b.lanes),
	}
	p.command.Env = append(p.command.Env, more...)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.run(); err != nil {
		return nil, err
	}
	return p, p.awaitReady(ctx)
}

// run starts the process, and keeps the thread that has started it until the process ends:
// Linux sends the process the signal Pdeathsig when this thread ends.
func (p *program) run() error {
	p.command.SysProcAttr = dieWithUs()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // the program's log tells why it ended
		}
	}()
	return <-started
}

func (p *program) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if status, err := get(ctx, p.base+"/readyz"); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-p.exited:
			return p.failed("it ended while it started")
		default:
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return errors.Join(p.failed("it does not get ready"), p.kill())
		}
	}
}

// failed is an error with the end of the program's log.
func (p *program) failed(why string) error {
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s: %s; the end of its log:\n%s", filepath.Base(p.command.Path), why, text[max(0, len(text)-2000):])
}

// kill sends SIGKILL.
func (p *program) kill() error {
	err := p.command.Process.Kill()
	<-p.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// peakMemory is the peak resident memory of the process, in bytes.
func (p *program) peakMemory() (float64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			return kilobytes * 1024, err
		}
	}
	return 0, errors.New("the system does not report the peak memory of a process")
}

func get(ctx context.Context, address string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func freePort(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}
