// Command worker runs the workflows and ingests dead letters from Kafka. Run as many
// replicas as you like: they share the work.
package main

import (
	"os"

	"dlqmanager/cmd/internal/app"
)

var about = app.About{
	Does: `dlq-worker ingests dead letters from Kafka, sends them back and archives them, as a Temporal
worker. It migrates the database when it starts, and does not run without one. Run as many
replicas as you like: they share the work.`,
	Listens: `  worker.host and worker.metrics_port, default 127.0.0.1:9090
  /metrics, /healthz, /readyz`,
	Stops: `On a stop it waits for the running activities, up to worker.stop_timeout (default 20s).
Other workers continue the rest.`,
	Services: map[string]app.Service{"migrate": app.Migrate},
	Usage: `  dlq-worker [-config FILE] migrate  apply the migrations of the database, and end
`,
}

func main() {
	os.Exit(app.Main(app.Command("dlq-worker", about, app.RunWorker, app.WorkerHealth)))
}
