package ctl

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

func (s *session) unmaskCommand() *cobra.Command {
	cmd := s.changeOne(subject{}, "unmask ID", "Reveal the hidden parts of a message for ten minutes",
		`  dlqctl messages unmask 01a214f0-d99b-85ca-9c4b-208d64cffa24 --reason "ticket 4711: the customer asks for her order"`, messageView,
		func(cmd *cobra.Command, c *client.Client, args []string, reason *string) ([]byte, error) {
			return body(c.UnmaskMessage(cmd.Context(), args[0], client.UnmaskRequest{Reason: *reason}))
		})
	cmd.Long = `Shows a message as it is stored. For ten minutes messages get shows it so too, to you alone, and you can edit it. Lists, exports and
fixtures stay masked. The audit has your name and the reason.`
	cmd.Flags().Lookup("reason").Usage += "; required"
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if strings.TrimSpace(cmd.Flag("reason").Value.String()) == "" {
			return usageError{errors.New("--reason is missing: it is for those who read the audit")}
		}
		return nil
	}
	return cmd
}
