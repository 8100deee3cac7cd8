package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

// longestPage is the largest page of any list of the API.
const longestPage = 200

// call asks the server for one answer and returns its body as it came.
type call func(ctx context.Context, c *client.Client, args []string, options ...client.RequestOption) ([]byte, error)

// listOf is the call of a method that needs no argument.
func listOf[P, T any](method func(*client.Client, context.Context, *P, ...client.RequestOption) (*client.Answer[T], error)) call {
	return func(ctx context.Context, c *client.Client, _ []string, options ...client.RequestOption) ([]byte, error) {
		return body(method(c, ctx, nil, options...))
	}
}

// callOf is the call of a method that takes the first argument: an id, or a topic.
func callOf[P, T any](method func(*client.Client, context.Context, string, *P, ...client.RequestOption) (*client.Answer[T], error)) call {
	return func(ctx context.Context, c *client.Client, args []string, options ...client.RequestOption) ([]byte, error) {
		return body(method(c, ctx, args[0], nil, options...))
	}
}

// body takes the body of an answer.
func body[T any](answer *client.Answer[T], err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// option is a flag of a list that is one query parameter.
type option struct{ name, help string }

// listCommand makes the list of a noun. Its flags become query parameters.
func (s *session) listCommand(use, short, example string, v view, fetch call, filtered bool, options ...option) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: argumentsOf(use)}
	parameters, filters := newFlags(), newFlags()
	for _, o := range options {
		parameters.String(o.name, "", o.help)
	}
	cmd.Flags().AddFlagSet(parameters)
	limit := new(int64)
	if !v.whole {
		limit = cmd.Flags().Int64("limit", 50, "at most so many; 0 for all")
	}
	if filtered {
		filters = s.addFilters(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 0 {
			return usageError{fmt.Errorf("--limit is 0 or more, not %d", *limit)}
		}
		queries, err := queryOf(filters, parameters)
		if err != nil {
			return err
		}
		return s.list(cmd.Context(), v, args, *limit, fetch, queries)
	}
	return cmd
}

// list prints a list, page after page.
func (s *session) list(ctx context.Context, v view, args []string, limit int64, fetch call, queries []client.RequestOption) error {
	p, c, _, err := s.begin(v)
	if err != nil {
		return err
	}
	shown, err := s.pages(ctx, c, p, args, limit, fetch, queries)
	if err == nil && shown == 0 && s.people() {
		s.note(fmt.Sprintf("There are no %s that match.", v.noun))
	}
	return errors.Join(err, p.end()) // also the pages before an error are written
}

// pages prints page after page, and returns how many records there were.
func (s *session) pages(
	ctx context.Context, c *client.Client, p *printer, args []string, limit int64, fetch call, queries []client.RequestOption,
) (shown int64, err error) {
	for cursor := ""; ; {
		size := int64(longestPage)
		if limit > 0 {
			size = min(size, limit-shown)
		}
		options := slices.Clone(queries)
		if !p.whole {
			options = append(options, client.Query("page_size", strconv.FormatInt(size, 10)))
		}
		if cursor != "" {
			options = append(options, client.Query("cursor", cursor))
		}
		answer, err := fetch(ctx, c, args, options...)
		if err != nil {
			return shown, err
		}
		records, next, err := readPage(answer, p.list)
		if err != nil {
			return shown, err
		}
		if err := p.rows(ctx, answer, records); err != nil {
			return shown, err
		}
		shown += int64(len(records))
		if next == "" {
			return shown, nil
		}
		if limit > 0 && shown >= limit {
			if s.people() {
				s.note(fmt.Sprintf("There are more than these %d; --limit 0 shows all.", shown))
			}
			return shown, nil
		}
		cursor = next
	}
}

// getCommand makes the command that shows one record, or several if its usage ends with "...".
func (s *session) getCommand(use, short, example string, v view, fetch call) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: argumentsOf(use),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return s.getEach(cmd.Context(), v, named(args), fetch)
			}
			p, c, _, err := s.begin(v)
			if err != nil {
				return err
			}
			var header http.Header
			answer, err := fetch(cmd.Context(), c, named(args), client.SeeHeader(&header))
			if err != nil {
				return err
			}
			p.console = client.PageOf(header)
			return p.one(cmd.Context(), answer)
		},
	}
}

// getEach prints records one after another; the chosen fields of --fields are a table. An id that the server does not
// know, such as a message that was archived meanwhile, does not keep the others from being shown.
func (s *session) getEach(ctx context.Context, v view, ids []string, fetch call) error {
	p, c, _, err := s.begin(v)
	if err != nil {
		return err
	}
	var missing []error
	var rows []json.RawMessage
	for _, id := range ids {
		answer, err := fetch(ctx, c, []string{id})
		failed, isAnswer := errors.AsType[*client.APIError](err)
		switch {
		case isAnswer && failed.Status == http.StatusNotFound:
			missing = append(missing, fmt.Errorf("%s: %w", id, err))
		case err != nil:
			return errors.Join(p.end(), err)
		case len(p.fields) > 0 && (p.format == formatTable || p.format == formatWide):
			rows = append(rows, answer)
		default:
			if err := p.page(ctx, answer); err != nil {
				return err
			}
		}
	}
	if len(rows) > 0 {
		if err := p.table(rows); err != nil {
			return err
		}
	}
	return errors.Join(append(missing, p.end())...)
}
