// Command worker runs the workflows and takes dead letters in from Kafka. Run
// as many as you like: they share the work.
package main

import (
	"os"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/config"
)

var about = app.About{
	Does: `dlq-worker takes dead letters in from Kafka, sends them back and archives them, as a worker
of Temporal. It migrates the database at its start, and does not run without one. Run as
many as you like: they share the work.`,
	Listens: `  worker.host and worker.metrics_port, default 127.0.0.1:9090
  /metrics, /healthz, /readyz`,
	Stops: `A stop waits for the activities under way, up to worker.stop_timeout (default 20s);
another worker takes up the rest.`,
}

func main() {
	os.Exit(app.Main(app.Command("dlq-worker", about, app.RunWorker, func(c *config.Config) string { return c.Worker.MetricsAddress() })))
}
