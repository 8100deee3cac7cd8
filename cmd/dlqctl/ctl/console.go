package ctl

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"dlqmanager/client"
	"dlqmanager/console"
)

// pageTimeout is longer than the time of any API request that a page makes.
const pageTimeout = 2 * time.Minute

func (s *session) consoleCommand() *cobra.Command {
	var port uint16
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the console's pages on this machine, with your own rights", Args: cobra.NoArgs,
		Long: `Serves the pages of the console on the loopback interface until Ctrl-C, and prints a link to them. They show the server of the
current context, or the one of --context, and send each request with your own sign-in there, which is renewed as for every command.
Their head names the context.

The link works once and signs in the browser that follows it first. Nobody else on this machine gets in; the session ends with
dlqctl. A production context asks for no name of a topic here: the pages show a plan before each change of many messages.`,
		Example: `  dlqctl console
  dlqctl console --context production --port 8099`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.retries = -1 // the person can reload a page
			if err := s.connect(); err != nil {
				return err
			}
			if _, err := s.client.GetMe(cmd.Context(), nil); err != nil {
				return err
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
			if err != nil {
				return err
			}
			return s.serveConsole(cmd.Context(), listener, cmp.Or(s.name, s.target.Server))
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "port of the pages (default: a free one)")
	return cmd
}

// serveConsole serves the pages until ctx ends.
func (s *session) serveConsole(ctx context.Context, listener net.Listener, name string) error {
	// Browsers send the cookies of a host to all its ports, and a port may belong to another person on this machine. So the
	// cookies have a random path, which nobody else knows.
	base, link := "/"+strings.ToLower(rand.Text()), rand.Text()
	pages, err := console.New(console.Options{
		Connect: func(client.TokenSource) (*client.Client, error) { return s.client, nil },
		SignIn:  console.SignInLink, Link: link, Base: base, Name: name, Production: s.target.Production,
		Docs: strings.TrimRight(s.target.Server, "/") + "/docs",
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	address := listener.Addr().String()
	server := &http.Server{
		Handler: guarded(address, http.StripPrefix(base, pages)), ReadHeaderTimeout: 10 * time.Second, ErrorLog: zap.NewStdLog(zap.NewNop()),
	}
	s.note(fmt.Sprintf("The pages show %s (%s). This link to them works once; Ctrl-C ends them:", name, s.target.Server))
	fmt.Fprintf(s.out, "http://%s%s/sign-in/link/%s\n", address, base, link)
	err = await(ctx, func() error { return server.Serve(listener) })
	_ = server.Close() // pages in progress are cut off, since nobody will see them
	if errors.Is(err, errInterrupted) {
		return nil
	}
	return err
}

// guarded refuses requests for other host names, because a web site can let its own name resolve to this machine. A request
// goes on after its browser has left, so that a person who closes a page interrupts no change.
func guarded(address string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != address {
			http.Error(w, "dlqctl console answers at http://"+address+" only", http.StatusForbidden)
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), pageTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
