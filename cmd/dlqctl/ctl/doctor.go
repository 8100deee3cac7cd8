package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

func (s *session) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Look at the context, the server and the sign-in, and say what to do", Args: cobra.NoArgs,
		Example: "  dlqctl doctor --context production",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.findContext(); err != nil {
				return err
			}
			way, _ := s.target.signIn()
			name := cmp.Or(s.name, "(from flags or the environment)")
			s.finding("context", fmt.Sprintf("%s: %s, sign-in: %s", name, s.target.Server, way))
			s.retries = -1 // doctor shows a failure at once
			if err := s.connect(); err != nil {
				return err
			}
			healthy := s.lookAtServer(cmd.Context())
			if err := s.lookAtSignIn(cmd.Context()); err != nil {
				return err
			}
			if !healthy {
				return outcome{exitFailed, "the server is not well"}
			}
			return nil
		},
	}
}

func (s *session) finding(what, text string) {
	fmt.Fprintf(s.out, "%-8s  %s\n", what, oneLine(text))
}

// lookAtServer checks the server, and tells whether it is ready.
func (s *session) lookAtServer(ctx context.Context) bool {
	var ready client.Ready
	answer, err := s.client.Readyz(ctx)
	failed, isAnswer := errors.AsType[*client.APIError](err)
	switch {
	case err == nil:
		ready = answer.Value
	case isAnswer && failed.Status == http.StatusServiceUnavailable && json.Unmarshal(failed.Body, &ready) == nil: // also has checks
	default:
		s.finding("server", err.Error())
		return false
	}
	checks := ready.Checks
	if len(checks) == 0 {
		s.finding("server", "this is no DLQ manager: its /readyz names no checks")
	}
	healthy := len(checks) > 0
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		s.finding("server", name+": "+checks[name])
		state, _, _ := strings.Cut(checks[name], "; ") // a notice may follow
		healthy = healthy && state == "ok"
	}
	return healthy
}

func (s *session) lookAtSignIn(ctx context.Context) error {
	me, err := s.client.GetMe(ctx, nil)
	if err != nil {
		return err
	}
	s.finding("sign-in", fmt.Sprintf("you are %s (%s)", me.Value.Subject, me.Value.Method))
	for _, grant := range me.Value.Grants {
		s.finding("sign-in", fmt.Sprintf("role %s for %s", grant.Role, strings.Join(grant.Topics, ", ")))
	}
	return nil
}
