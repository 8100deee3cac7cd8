package ctl

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

func (s *session) unmaskCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "unmask ID", Short: "Reveal the hidden parts of a message for ten minutes", Args: argumentsOf("unmask ID"),
		Long: `Shows a message as it is stored. For ten minutes messages get shows it so too, to you alone, and you can edit it. Lists, exports and
fixtures stay masked. The audit has your name and the reason.`,
		Example: `  dlqctl messages unmask 01a214f0-d99b-85ca-9c4b-208d64cffa24 --reason "ticket 4711: the customer asks for her order"`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit; required")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(reason) == "" {
			return usageError{errors.New("--reason is missing: it is for those who read the audit")}
		}
		p, c, _, err := s.begin(messageView)
		if err != nil {
			return err
		}
		answer, err := c.UnmaskMessage(cmd.Context(), named(args)[0], client.UnmaskRequest{Reason: reason})
		if err != nil {
			return err
		}
		return p.one(cmd.Context(), answer.Body)
	}
	return cmd
}
