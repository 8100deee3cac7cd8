// Command worker runs the workflows and takes dead letters in from Kafka. Run
// as many as you like: they share the work.
package main

import (
	"os"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/config"
)

func main() {
	os.Exit(app.Main(app.Command("dlq-worker", app.RunWorker, func(c *config.Config) string { return c.Worker.MetricsAddress() })))
}
