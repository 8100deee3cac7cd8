// Command api serves the REST API. It is stateless: run as many as you like.
package main

import (
	"os"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/config"
)

func main() {
	os.Exit(app.Main(app.Command("dlq-api", app.RunAPI, func(c *config.Config) string { return c.Server.Address() })))
}
