package config

import (
	"net"
	"strconv"
)

// Worker configures the process that runs workflows and ingests dead letters.
type Worker struct {
	// Host and MetricsPort are the address at which /metrics, /healthz and /readyz are served.
	Host        string `yaml:"host" default:"127.0.0.1" check:"required; host"`
	MetricsPort int    `yaml:"metrics_port" default:"9090" check:"1 to 65535"`
	// TokensFile has the static tokens that may read /metrics. Without a file, no token is needed. A changed file is read
	// again.
	TokensFile string `yaml:"tokens_file"`
	// StopTimeout is how long a stop waits for running activities.
	StopTimeout Duration `yaml:"stop_timeout" default:"20s" check:"at least 1s"`
}

// MetricsAddress is host:port for net.Listen.
func (w Worker) MetricsAddress() string {
	return net.JoinHostPort(w.Host, strconv.Itoa(w.MetricsPort))
}
