package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

// several is the end of the name of an argument that may be repeated.
const several = "..."

// argumentsOf checks that a command gets the arguments that its usage names in capitals.
func argumentsOf(use string) cobra.PositionalArgs {
	names := strings.Fields(use)[1:]
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", strings.TrimSuffix(names[len(args)], several))
		case len(args) > len(names) && !strings.HasSuffix(use, several):
			return fmt.Errorf("%q is one argument too many", args[len(names)])
		case slices.Contains(args, ""): // such as a shell variable that is not set
			return fmt.Errorf("%s is empty", strings.TrimSuffix(names[min(slices.Index(args, ""), len(names)-1)], several))
		}
		return nil
	}
}

// named removes the noun from ids in the form of -o name, such as jobs/ID.
func named(args []string) []string { return mapped(args, withoutNoun) }

func withoutNoun(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// completer lists the possible values of a flag or an argument. A tab separates a value from its description.
type completer func(ctx context.Context, s *session) []string

func fixed(values ...string) completer {
	return func(context.Context, *session) []string { return values }
}

// completionTime limits how long the shell's completion waits for the server.
const completionTime = 2 * time.Second

// complete sets the completer of a flag.
func (s *session) complete(cmd *cobra.Command, flag string, values completer) {
	// The only possible error is that the flag does not exist, which the tests would find.
	_ = cmd.RegisterFlagCompletionFunc(flag, s.completion(values))
}

// arguments completes the first arguments of a command.
func (s *session) arguments(each ...completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.completion(each[len(args)])(cmd, args, begun)
	}
}

func (s *session) completion(values completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		var fitting []cobra.Completion
		for _, value := range values(ctx, s) {
			if strings.HasPrefix(value, begun) {
				fitting = append(fitting, oneLineButTab(value))
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneLineButTab makes a completion safe for a terminal, and keeps the tab in front of the description.
func oneLineButTab(value string) string {
	name, description, _ := strings.Cut(value, "\t")
	return strings.TrimSuffix(oneLine(name)+"\t"+oneLine(description), "\t")
}

var (
	completeTopics = completeRecords(topicsView, listOf((*client.Client).ListTopics), "%s PENDING", "counts.PENDING")
	completeGroups = completeRecords(groupsView, listOf((*client.Client).ListGroups), "%s", "title")
	completeJobs   = completeRecords(jobsView, listOf((*client.Client).ListJobs), "%s %s %s", "kind", "topic", "state")
)

// completeRecords lists the ids on the first page of a list. The description of an id has some fields of the record. Without a
// server the list is empty.
func completeRecords(v view, fetch call, format string, fields ...string) completer {
	return func(ctx context.Context, s *session) (values []string) {
		var options []client.RequestOption
		if !v.whole {
			options = append(options, client.Query("page_size", "50"))
		}
		if s.connect() != nil {
			return nil
		}
		answer, err := fetch(ctx, s.client, nil, options...)
		if err != nil {
			return nil
		}
		records, _, _ := readPage(answer, v.list)
		for _, record := range records {
			value, _ := decode(record)
			described := mapped(fields, func(field string) any { return text(at(value, field)) })
			values = append(values, text(at(value, cmp.Or(v.id, "id")))+"\t"+fmt.Sprintf(format, described...))
		}
		return values
	}
}
