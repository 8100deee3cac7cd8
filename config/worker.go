package config

import (
	"net"
	"strconv"
	"time"
)

// Worker configures the process that runs workflows and ingests dead letters.
type Worker struct {
	// Host and MetricsPort are the address of /metrics, /healthz and /readyz.
	Host        string `yaml:"host"`
	MetricsPort int    `yaml:"metrics_port"`
	// TokensFile has the static tokens that may read /metrics; empty asks for none. It is read again
	// when it changes.
	TokensFile string `yaml:"tokens_file"`
	// StopTimeout is how long a stop waits for running activities.
	StopTimeout Duration `yaml:"stop_timeout"`
}

func defaultWorker() Worker {
	return Worker{Host: "127.0.0.1", MetricsPort: 9090, StopTimeout: Duration(20 * time.Second)}
}

// MetricsAddress is host:port, as net.Listen takes it.
func (w Worker) MetricsAddress() string {
	return net.JoinHostPort(w.Host, strconv.Itoa(w.MetricsPort))
}

func (w Worker) validate(r *report) {
	r.host("worker.host", w.Host)
	r.port("worker.metrics_port", w.MetricsPort)
	r.atLeast("worker.stop_timeout", w.StopTimeout, time.Second)
}
