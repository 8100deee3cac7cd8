package dev

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// The environment variables of the stack. Variables without DEV in their names are the
// manager's own: they name external services, which the stack then does not start.
const (
	EnvDir            = "DLQ_DEV_DIR"
	EnvPostgresPort   = "DLQ_DEV_POSTGRES_PORT"
	EnvKafkaPort      = "DLQ_DEV_KAFKA_PORT"
	EnvTemporalPort   = "DLQ_DEV_TEMPORAL_PORT"
	EnvTemporalUIPort = "DLQ_DEV_TEMPORAL_UI_PORT"
	EnvReceiptsPort   = "DLQ_DEV_RECEIPTS_PORT"
	EnvTemporalBinary = "DLQ_DEV_TEMPORAL_BIN"

	EnvDatabaseHost    = "DLQ_DATABASE_HOST"
	EnvBrokers         = "DLQ_KAFKA_BROKERS"
	EnvTemporalAddress = "DLQ_TEMPORAL_ADDRESS"
	envTemporalOwn     = "TEMPORAL_ADDRESS" // of Temporal's own tools
)

// DatabaseName is the database that the stack creates on its PostgreSQL.
const DatabaseName = "dlq_db"

// StackOptions configures a stack. Start from DefaultStackOptions or
// StackOptionsFromEnv.
type StackOptions struct {
	// Dir holds all state: postgres/, kafka/, temporal/ and bin/.
	Dir string
	// Ports on 127.0.0.1. 0 takes a free port, except for TemporalUIPort, where
	// 0 means no Web UI.
	PostgresPort, KafkaPort, TemporalPort, TemporalUIPort int
	// ReceiptsPort is where the shop of the demo takes messages over HTTP.
	ReceiptsPort int
	// DatabaseHost, Brokers and TemporalAddress name external services, which the stack
	// then does not start.
	DatabaseHost    string
	Brokers         []string
	TemporalAddress string
	// TemporalBinary is the Temporal CLI. If it is empty, the CLI on PATH is used, or
	// a CLI is built.
	TemporalBinary string
	// TemporalPaced keeps the development server's default limits, which slow workflows
	// down. Production servers do not have them.
	TemporalPaced bool
	// Topics are created on the in-process broker if they are missing.
	Topics []string
	// Out receives a line of progress for each part; may be nil.
	Out io.Writer
	// Log may be nil.
	Log *zap.Logger
}

// DefaultStackOptions has the documented folder and ports.
func DefaultStackOptions() StackOptions {
	return StackOptions{
		Dir:          ".data",
		PostgresPort: 15432, KafkaPort: 19092, TemporalPort: 7233, TemporalUIPort: 8233, ReceiptsPort: 18081,
	}
}

// StackOptionsFromEnv returns the defaults, overridden by the environment.
func StackOptionsFromEnv(getenv func(string) string) (StackOptions, error) {
	o := DefaultStackOptions()
	if dir := getenv(EnvDir); dir != "" {
		o.Dir = dir
	}
	for name, port := range map[string]*int{
		EnvPostgresPort: &o.PostgresPort, EnvKafkaPort: &o.KafkaPort,
		EnvTemporalPort: &o.TemporalPort, EnvTemporalUIPort: &o.TemporalUIPort, EnvReceiptsPort: &o.ReceiptsPort,
	} {
		text := getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 65535 {
			return o, fmt.Errorf("%s=%q is not a port: use 0 to 65535", name, text)
		}
		*port = n
	}
	o.DatabaseHost = getenv(EnvDatabaseHost)
	for broker := range strings.SplitSeq(getenv(EnvBrokers), ",") {
		if broker = strings.TrimSpace(broker); broker != "" {
			o.Brokers = append(o.Brokers, broker)
		}
	}
	if o.TemporalAddress = getenv(EnvTemporalAddress); o.TemporalAddress == "" {
		o.TemporalAddress = getenv(envTemporalOwn)
	}
	o.TemporalBinary = getenv(EnvTemporalBinary)
	return o, nil
}
