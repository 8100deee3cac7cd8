package config

import (
	"fmt"
	"strconv"
)

// Tracing sends traces to an OpenTelemetry collector. Without an endpoint no traces are made.
type Tracing struct {
	// Endpoint is the URL of the collector. With https the connection is encrypted.
	Endpoint string `yaml:"endpoint" check:"web URL"`
	// Protocol is the transport of OTLP.
	Protocol string `yaml:"protocol" default:"grpc" check:"one of grpc, http/protobuf"`
	// SampleRatio is the share of traces that are kept, for traces that begin in the manager. A trace that a client began is
	// kept if the client keeps it.
	SampleRatio Ratio `yaml:"sample_ratio" default:"1"`
	TLS         TLS   `yaml:"tls"`
}

// Configured reports whether traces are sent.
func (t Tracing) Configured() bool { return t.Endpoint != "" }

func (t Tracing) validate(s section) {
	s.refuse(!t.Configured() && t.TLS.isSet(), "endpoint", "is required with tracing.tls")
}

// Ratio is a number from 0 to 1.
type Ratio float64

// MarshalText writes the number without an exponent.
func (r Ratio) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(r), 'f', -1, 64), nil
}

// UnmarshalText reads a number such as 0.01.
func (r *Ratio) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0 && n <= 1) { // NaN is refused too
		return fmt.Errorf("must be a number from 0 to 1, such as 0.01, not %q", text)
	}
	*r = Ratio(n)
	return nil
}
