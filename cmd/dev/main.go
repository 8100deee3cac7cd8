// Command dev runs everything on one machine without configuration. The API and the worker run in this process. It also starts
// PostgreSQL, Temporal with its Web UI, and a broker that speaks the Kafka protocol. Its state is in .data.
package main

import (
	"os"

	"dlqmanager/cmd/internal/app"
)

func main() { os.Exit(app.Main(run)) }
