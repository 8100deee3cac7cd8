package ctl

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

// openID has the settings of a context for the sign-in with OpenID. The tokens are in a tokenStore.
type openID struct {
	Issuer   string   `yaml:"issuer"`
	ClientID string   `yaml:"client_id"`
	Scopes   []string `yaml:"scopes,omitempty,flow"`
	// InFile is set if the tokens are in a file instead of the key ring.
	InFile bool `yaml:"in_file,omitempty"`
}

func (s *session) loginCommand() *cobra.Command {
	var asked openID
	cmd := &cobra.Command{
		Use: "login", Short: "Sign in to the current context with OpenID", Args: cobra.NoArgs,
		Long: `Signs in to the current context, or the one of --context. dlqctl shows a page and a code; open the page in a browser on any
device, sign in there and confirm the code. The API names its identity provider, unless --issuer does. The context keeps --issuer,
--client-id and --scope for the next time.

The tokens are kept in the key ring of the system. Where there is none, they are kept in a file beside the contexts, which only you
may read; --in-file chooses this. dlqctl refreshes them until the session at the identity provider ends.`,
		Example: `  dlqctl login
  dlqctl login --context production --client-id ops-tools --scope openid --scope offline_access`,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.login(cmd.Context(), asked) },
	}
	flags := cmd.Flags()
	flags.StringVar(&asked.Issuer, "issuer", "", "URL of the identity provider (default: the context's, or the one that the API names)")
	flags.StringVar(&asked.ClientID, "client-id", "", "public client at the identity provider (default: the context's, or dlqctl)")
	flags.StringArrayVar(&asked.Scopes, "scope", nil, "scope to ask for; repeat the flag for more (default: the context's, or those that the API names)")
	flags.BoolVar(&asked.InFile, "in-file", false, "keep the tokens in a file instead of the key ring")
	return cmd
}

func (s *session) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "End the session of dlqctl login", Args: cobra.NoArgs,
		Long:    "Removes the tokens of the current context, or the one of --context, and ends their session at the identity provider.",
		Example: "  dlqctl logout --context production",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.findContext(); err != nil {
				return err
			}
			if s.target.OpenID == nil {
				return usageError{fmt.Errorf("the context %q is not signed in with dlqctl login", s.name)}
			}
			flow, err := s.deviceFlow()
			if err != nil {
				return err
			}
			if err := flow.SignOut(cmd.Context()); err != nil {
				return fmt.Errorf("the sign-out is not complete: the tokens may be kept here, or the session at the identity provider may go on: %w", err)
			}
			s.note("You are signed out of the context " + s.name + ".")
			return nil
		},
	}
}

func (s *session) login(ctx context.Context, asked openID) error {
	if err := s.findContext(); err != nil {
		return err
	}
	if s.name == "" {
		return usageError{errors.New("a sign-in belongs to a context: make one with dlqctl contexts set NAME --server https://…, " +
			"and leave --server and DLQ_URL out")}
	}
	former := openID{InFile: true} // without a sign-in, the key ring has no tokens
	if s.target.OpenID != nil {
		former = *s.target.OpenID
	}
	chosen := openID{
		Issuer: cmp.Or(asked.Issuer, former.Issuer), ClientID: cmp.Or(asked.ClientID, former.ClientID, "dlqctl"),
		Scopes: asked.Scopes, InFile: asked.InFile,
	}
	if len(chosen.Scopes) == 0 {
		chosen.Scopes = former.Scopes
	}
	if chosen.Issuer == "" {
		if err := s.findIssuer(ctx, &chosen); err != nil {
			return err
		}
	}
	if !chosen.InFile {
		if err := s.tokenStore(s.name, chosen).probe(); err != nil {
			s.note("The key ring of this system cannot be used: " + oneLine(err.Error()))
			chosen.InFile = true
		}
	}
	s.target.OpenID = &chosen
	flow, err := s.deviceFlow()
	if err != nil {
		return usageError{err}
	}
	if err := flow.SignIn(ctx, s.showCode); err != nil {
		return err
	}
	if chosen.InFile {
		s.note(fmt.Sprintf("The tokens are kept in %s, which only you may read.", s.tokenStore(s.name, chosen).path))
	}
	if former.InFile != chosen.InFile {
		_ = s.tokenStore(s.name, former).Save(client.Tokens{}) // removes the earlier tokens
	}
	err = s.changeContexts(ctx, func(file *contextsFile) error {
		kept, err := file.named(s.name) // the context may have been changed during the sign-in
		file.Contexts[s.name] = kept.merge(target{OpenID: &chosen})
		return err
	})
	if err != nil {
		return err
	}
	if err := s.connectWith(flow); err != nil {
		return err
	}
	me, err := s.client.GetMe(ctx, nil)
	if err != nil {
		return err
	}
	s.note(fmt.Sprintf("You are %s in the context %s.", oneLine(me.Value.Subject), s.name))
	if len(me.Value.Grants) == 0 {
		s.note("You have no role there; ask its administrator for one.")
	}
	return nil
}

func (s *session) showCode(p client.DevicePrompt) {
	s.note(fmt.Sprintf("Open this page in a browser: %s\nEnter this code: %s", oneLine(p.URL), oneLine(p.Code)))
	if p.PageWithCode != "" {
		s.note("This page has the code already: " + oneLine(p.PageWithCode))
	}
	s.note(fmt.Sprintf("dlqctl waits until %s. Ctrl-C ends the sign-in.", p.Expires.Local().Format(time.TimeOnly)))
}

// findIssuer asks the API for its identity provider (RFC 9728).
func (s *session) findIssuer(ctx context.Context, chosen *openID) error {
	if err := s.connectWith(nil); err != nil {
		return err
	}
	answer, err := s.client.ProtectedResource(ctx)
	if failed, ok := errors.AsType[*client.APIError](err); ok && failed.Status == http.StatusNotFound {
		return fmt.Errorf("%s names no identity provider; give --issuer, or sign in with a token: dlqctl contexts set --help", s.target.Server)
	}
	if err != nil {
		return err
	}
	found := answer.Value
	if strings.TrimRight(found.Resource, "/") != strings.TrimRight(s.target.Server, "/") { // the answer may be another server's
		return fmt.Errorf("the server %s calls itself %s: use that address in the context, have server.public_url changed, or give --issuer",
			s.target.Server, found.Resource)
	}
	if len(found.AuthorizationServers) == 0 {
		return fmt.Errorf("%s names no identity provider; give --issuer", s.target.Server)
	}
	chosen.Issuer = found.AuthorizationServers[0]
	if len(chosen.Scopes) == 0 {
		chosen.Scopes = found.ScopesSupported
	}
	return nil
}

// deviceFlow signs in with the settings of the context. It trusts the certificates of the system and of the context.
func (s *session) deviceFlow() (*client.DeviceFlow, error) {
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool()
	}
	transport, err := s.target.transport(trusted)
	if err != nil {
		return nil, err
	}
	o := *s.target.OpenID
	return client.NewDeviceFlow(client.DeviceConfig{
		Issuer: o.Issuer, ClientID: o.ClientID, Scopes: o.Scopes, Store: s.tokenStore(s.name, o),
		HTTP: &http.Client{Transport: transport, Timeout: 30 * time.Second},
	})
}
