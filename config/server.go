package config

import (
	"net"
	"strconv"
	"time"
)

// Server configures the REST API's listener and its limits.
type Server struct {
	// Host defaults to loopback, since the API changes data.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	// RetryWait is how long a retry call waits for its workflow before it
	// answers 202.
	RetryWait Duration `yaml:"retry_wait"`
	// ReadTimeout also limits how long a stop waits for idle connections.
	ReadTimeout  Duration `yaml:"read_timeout"`
	WriteTimeout Duration `yaml:"write_timeout"`
	IdleTimeout  Duration `yaml:"idle_timeout"`
	// RequestTimeout is the deadline of the work for one request.
	RequestTimeout Duration `yaml:"request_timeout"`
	// DryRunTimeout replaces RequestTimeout for a dry run, which counts all messages
	// that it would send.
	DryRunTimeout Duration `yaml:"dry_run_timeout"`
	// BodyLimit is the largest request body; a larger one is refused with 413.
	BodyLimit Size `yaml:"body_limit"`
	// ShutdownTimeout is how long a stop waits for requests in flight.
	ShutdownTimeout Duration `yaml:"shutdown_timeout"`
	// DrainDelay is how long /readyz answers 503 before connections are refused. Load
	// balancers can remove this server meanwhile.
	DrainDelay Duration  `yaml:"drain_delay"`
	TLS        ServerTLS `yaml:"tls"`
}

func defaultServer() Server {
	return Server{
		Host:            "127.0.0.1",
		Port:            8080,
		RetryWait:       Duration(10 * time.Second),
		ReadTimeout:     Duration(10 * time.Second),
		WriteTimeout:    Duration(30 * time.Second),
		IdleTimeout:     Duration(60 * time.Second),
		RequestTimeout:  Duration(15 * time.Second),
		DryRunTimeout:   Duration(time.Minute),
		BodyLimit:       1 << 20,
		ShutdownTimeout: Duration(20 * time.Second),
		DrainDelay:      Duration(3 * time.Second),
	}
}

// Address is host:port, as net.Listen takes it.
func (s Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

func (s Server) validate(r *report) {
	r.host("server.host", s.Host)
	r.port("server.port", s.Port)
	s.TLS.validate(r)
	r.atLeast("server.retry_wait", s.RetryWait, 0)
	r.atLeast("server.read_timeout", s.ReadTimeout, time.Millisecond)
	r.atLeast("server.write_timeout", s.WriteTimeout, time.Millisecond)
	r.atLeast("server.idle_timeout", s.IdleTimeout, time.Millisecond)
	r.atLeast("server.request_timeout", s.RequestTimeout, time.Millisecond)
	r.atLeast("server.dry_run_timeout", s.DryRunTimeout, time.Millisecond)
	r.atMost("server.dry_run_timeout", s.DryRunTimeout, 24*time.Hour) // its snapshot keeps VACUUM from removing newer dead rows
	r.atLeast("server.shutdown_timeout", s.ShutdownTimeout, 0)
	r.atLeast("server.drain_delay", s.DrainDelay, 0)
	if s.BodyLimit < 1 {
		r.add("server.body_limit", "must be at least 1 byte")
	}
	// An answer after the deadline of its own request would never be sent.
	if s.RequestTimeout <= s.RetryWait {
		r.add("server.request_timeout", "must be longer than server.retry_wait (%s), not %s", s.RetryWait, s.RequestTimeout)
	}
	if s.WriteTimeout <= s.RequestTimeout {
		r.add("server.write_timeout", "must be longer than server.request_timeout (%s), not %s", s.RequestTimeout, s.WriteTimeout)
	}
}
