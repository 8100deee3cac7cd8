// Command api serves the REST API. The program is stateless: run as many replicas as you like.
package main

import (
	"os"

	"dlqmanager/cmd/internal/app"
)

var about = app.About{
	Does: `dlq-api serves the REST API of the DLQ manager. It is stateless: run as many replicas
as you like, beside dlq-worker. Without a database it keeps messages in memory and does the
work of dlq-worker too.`,
	Listens: `  server.host and server.port, default 127.0.0.1:8080
  /api/v1, /docs, /openapi.json, /metrics, /healthz, /readyz`,
	Stops: `On a stop it answers /readyz with 503 for server.drain_delay (default 3s). Then it waits for
the requests in flight, up to server.shutdown_timeout (default 20s).`,
	Commands: map[string]app.Subcommand{"token": app.Token, "doctor": app.Doctor},
	Usage: `  dlq-api token new -name NAME ...    create a token for -role ROLE; dlq-api token -h shows more
  dlq-api [-config FILE] doctor     look at every dependency, and say what to do; dlq-api doctor -h shows more
`,
}

func main() {
	os.Exit(app.Main(app.Command("dlq-api", about, app.RunAPI, app.APIHealth)))
}
