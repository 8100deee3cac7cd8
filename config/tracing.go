package config

import (
	"crypto/tls"
	"fmt"
	"strconv"
)

// Tracing sends traces to an OpenTelemetry collector. Nothing is traced without an endpoint.
type Tracing struct {
	// Endpoint is the URL of the collector. With https the connection is encrypted.
	Endpoint string `yaml:"endpoint"`
	// Protocol is OTLP's: grpc or http/protobuf.
	Protocol string `yaml:"protocol"`
	// SampleRatio is the share of the traces that are kept, among those that begin here. A trace
	// that a client began is kept if the client keeps it.
	SampleRatio Ratio      `yaml:"sample_ratio"`
	TLS         TracingTLS `yaml:"tls"`
}

// TracingTLS has the same keys as Kafka's.
type TracingTLS KafkaTLS

// Config returns the TLS configuration.
func (t TracingTLS) Config() (*tls.Config, error) { return KafkaTLS(t).config("tracing.tls") }

func defaultTracing() Tracing { return Tracing{Protocol: "grpc", SampleRatio: 1} }

// Configured reports whether traces are sent.
func (t Tracing) Configured() bool { return t.Endpoint != "" }

func (t Tracing) validate(r *report) {
	if t.Configured() {
		r.webURL("tracing.endpoint", t.Endpoint)
	} else if (t.TLS != TracingTLS{}) {
		r.add("tracing.endpoint", "is required with tracing.tls")
	}
	r.oneOf("tracing.protocol", t.Protocol, "grpc", "http/protobuf")
	r.certificate("tracing.tls", t.TLS.CertFile, t.TLS.KeyFile)
}

// Ratio is a number from 0 to 1.
type Ratio float64

// MarshalText writes it without an exponent.
func (r Ratio) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(r), 'f', -1, 64), nil
}

// UnmarshalText reads a number such as 0.01.
func (r *Ratio) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0 && n <= 1) { // also not a NaN
		return fmt.Errorf("must be a number from 0 to 1, such as 0.01, not %q", text)
	}
	*r = Ratio(n)
	return nil
}
