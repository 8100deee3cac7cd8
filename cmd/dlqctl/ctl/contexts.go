package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

func (s *session) contextsCommand() *cobra.Command {
	use := s.changeContext("use NAME", "Make a context the current one", "  dlqctl contexts use staging",
		func(file *contextsFile, name string, t target) error {
			file.Current = name
			s.note(fmt.Sprintf("The current context is %s: %s.", name, t.Server))
			return nil
		})
	remove := s.changeContext("delete NAME", "Delete a context", "  dlqctl contexts delete staging",
		func(file *contextsFile, name string, t target) error {
			if t.OpenID != nil {
				if err := s.tokenStore(name, *t.OpenID).Save(client.Tokens{}); err != nil {
					return err
				}
			}
			delete(file.Contexts, name)
			if file.Current == name {
				file.Current = ""
			}
			return nil
		})
	return group("contexts", "Choose the server that dlqctl talks to", s.contextsList(), s.contextsSet(), use, remove)
}

// contextView is a context without its token.
type contextView struct {
	Name       string `json:"name"`
	Current    bool   `json:"current"`
	Server     string `json:"server"`
	Production bool   `json:"production"`
	SignIn     string `json:"sign_in"`
}

// signIn names the way to sign in, and makes the token source. The source is nil for OpenID, since deviceFlow then gives the
// tokens. It is also nil for a server without authentication.
func (t target) signIn() (way string, source client.TokenSource) {
	switch {
	case t.Token != "":
		return "token", client.StaticToken(t.Token)
	case t.TokenFile != "":
		return "file " + t.TokenFile, client.FileToken(t.TokenFile)
	case len(t.TokenCommand) > 0:
		return "command " + t.TokenCommand[0], client.CommandToken(t.TokenCommand[0], t.TokenCommand[1:]...)
	case t.OpenID != nil:
		return "OpenID " + t.OpenID.Issuer, nil
	}
	return "none", nil
}

func (s *session) contextsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts", Args: cobra.NoArgs,
		Example: "  dlqctl contexts list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := s.readContexts()
			if err != nil {
				return err
			}
			views := mapped(slices.Sorted(maps.Keys(file.Contexts)), func(name string) contextView {
				t := file.Contexts[name]
				way, _ := t.signIn()
				return contextView{Name: name, Current: name == file.Current, Server: t.Server, Production: t.Production, SignIn: way}
			})
			body, err := json.Marshal(map[string]any{"contexts": views})
			if err != nil {
				return err
			}
			p, err := s.printer(view{noun: "contexts", list: "contexts", id: "name", sample: contextView{}, columns: []column{
				{"NAME", "name"}, {"CURRENT", "current"}, {"SERVER", "server"}, {"PRODUCTION", "production"}, {"SIGN-IN", "sign_in"},
			}})
			if err != nil {
				return err
			}
			return p.one(cmd.Context(), body)
		},
	}
}

func (s *session) contextsSet() *cobra.Command {
	var t target
	var tokenStdin bool
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Make or change a context", Args: argumentsOf("set NAME"),
		Long: `Makes a context, or replaces the settings of an existing one that are given. The first context becomes the current one.

The token of a context stands in a file that only you may read, comes from a command that prints one, or is kept in the file of
the contexts (--token-stdin), which only you may read.`,
		Example: `  dlqctl contexts set local --server http://127.0.0.1:8080
  dlqctl contexts set production --server https://dlq.example.com --token-file ~/.dlq-token --production
  dlqctl contexts set staging --server https://dlq.staging.example.com --token-command vault --token-command read-token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := args[0]; name == "" || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || dangerous(r) }) {
				return usageError{fmt.Errorf("%q is no name of a context: give a word", name)}
			}
			if tokenStdin {
				var err error
				if t.Token, err = s.readLine(); err != nil || t.Token == "" {
					return errors.Join(errors.New("the standard input has no token"), err)
				}
			}
			var changed target
			err := s.changeContexts(cmd.Context(), func(file *contextsFile) error {
				changed = file.Contexts[args[0]].merge(t)
				if cmd.Flags().Changed("production") {
					changed.Production = t.Production
				}
				if changed.Server == "" {
					return usageError{fmt.Errorf("the context %q needs a server: add --server https://…", args[0])}
				}
				if _, err := client.New(changed.Server, client.Config{}); err != nil {
					return usageError{err}
				}
				file.Contexts[args[0]] = changed
				file.Current = cmp.Or(file.Current, args[0])
				return nil
			})
			if err != nil {
				return err
			}
			way, _ := changed.signIn()
			s.note(fmt.Sprintf("The context %s is kept: %s, sign-in: %s.", args[0], changed.Server, way))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&t.Server, "server", "", "address of the server")
	flags.StringVar(&t.TokenFile, "token-file", "", "file that has the token")
	flags.StringArrayVar(&t.TokenCommand, "token-command", nil, "program that prints the token; give its arguments by repeating the flag")
	flags.BoolVar(&tokenStdin, "token-stdin", false, "read the token from the standard input and keep it in the file of the contexts")
	flags.StringVar(&t.CAFile, "ca-file", "", "file with the certificates to trust instead of the system's")
	flags.BoolVar(&t.Production, "production", false, "ask for the name of the topic before each change")
	cmd.MarkFlagsMutuallyExclusive("token-file", "token-command", "token-stdin")
	return cmd
}

// merge returns t with the settings that change has. A new way to sign in replaces the old way.
func (t target) merge(change target) target {
	if t.Server != "" && change.Server != "" && !sameServer(t.Server, change.Server) {
		t.Token, t.TokenFile, t.TokenCommand, t.OpenID = "", "", nil, nil // a sign-in is valid for its own server only
	}
	t.Server, t.CAFile = cmp.Or(change.Server, t.Server), cmp.Or(absolute(change.CAFile), t.CAFile)
	if change.Token != "" || change.TokenFile != "" || len(change.TokenCommand) > 0 || change.OpenID != nil {
		t.Token, t.TokenFile, t.TokenCommand, t.OpenID = change.Token, absolute(change.TokenFile), change.TokenCommand, change.OpenID
	}
	return t
}

// absolute makes a path absolute, so that it is valid in every working directory.
func absolute(path string) string {
	whole, err := filepath.Abs(path)
	if path == "" || err != nil {
		return path
	}
	return whole
}

// changeContext makes a command that changes an existing context. The argument of the command names the context.
func (s *session) changeContext(use, short, example string, change func(file *contextsFile, name string, t target) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: argumentsOf(use), Example: example,
		ValidArgsFunction: s.arguments(func(context.Context, *session) []string { return s.contextNames() }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.changeContexts(cmd.Context(), func(file *contextsFile) error {
				t, err := file.named(args[0])
				if err != nil {
					return err
				}
				return change(file, args[0], t)
			})
		},
	}
}

// findContext finds the context of this run. A target from flags or the environment has no context name.
func (s *session) findContext() error {
	file, err := s.readContexts()
	if err != nil {
		return err
	}
	server := s.flags.server
	if server != "" && s.flags.context != "" {
		return usageError{errors.New("--server and --context are two servers: give one of them")}
	}
	if server == "" && s.flags.context == "" {
		server = s.Getenv("DLQ_URL")
	}
	if server != "" {
		t := target{Server: server, TokenFile: s.flags.tokenFile, CAFile: s.Getenv("DLQ_CA_FILE")}
		if t.TokenFile == "" {
			t.Token, t.TokenFile = s.Getenv("DLQ_TOKEN"), s.Getenv("DLQ_TOKEN_FILE")
		}
		// The server of a production context is production even if the context is not used.
		for _, known := range file.Contexts {
			t.Production = t.Production || known.Production && sameServer(known.Server, server)
		}
		s.target = t
		return nil
	}
	if s.flags.tokenFile != "" {
		return usageError{errors.New("--token-file goes with --server or DLQ_URL; a context has its own token")}
	}
	name := cmp.Or(s.flags.context, s.Getenv("DLQ_CONTEXT"), file.Current)
	if name == "" {
		return usageError{errors.New("no server is chosen: make a context with dlqctl contexts set NAME --server https://…, or set DLQ_URL")}
	}
	s.name = name
	s.target, err = file.named(name)
	return err
}

// sameServer tells whether two URLs have the same host and port. It ignores the path, because the server may treat different
// paths as the same.
func sameServer(a, b string) bool { return hostAndPort(a) == hostAndPort(b) }

func hostAndPort(address string) string {
	server, err := url.Parse(address)
	if err != nil {
		return address
	}
	port := cmp.Or(server.Port(), map[string]string{"http": "80", "https": "443"}[server.Scheme])
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(server.Hostname()), "."), port)
}
