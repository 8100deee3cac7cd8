package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

// longestPage is the largest page size that the API allows.
const longestPage = 200

// call sends one request and returns the unchanged body of the answer.
type call func(ctx context.Context, c *client.Client, args []string, options ...client.RequestOption) ([]byte, error)

// listOf makes a call of a client method that needs no argument.
func listOf[P, T any](method func(*client.Client, context.Context, *P, ...client.RequestOption) (*client.Answer[T], error)) call {
	return func(ctx context.Context, c *client.Client, _ []string, options ...client.RequestOption) ([]byte, error) {
		return body(method(c, ctx, nil, options...))
	}
}

// callOf makes a call of a client method that needs one argument: an id or a topic.
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

// option is a flag of a list. The flag becomes a query parameter. The shell can complete its values.
type option struct {
	name, help string
	values     completer
}

// listCommand makes the command that lists the records of a noun. Its flags become query parameters.
func (s *session) listCommand(use, short, example string, v view, fetch call, filtered bool, options ...option) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: argumentsOf(use)}
	parameters, filters := newFlags(), newFlags()
	for _, o := range options {
		parameters.String(o.name, "", o.help)
		cmd.Flags().AddFlag(parameters.Lookup(o.name))
		if o.values != nil {
			s.complete(cmd, o.name, o.values)
		}
	}
	limit := new(int64)
	if !v.whole {
		limit = cmd.Flags().Int64("limit", 50, "at most so many; 0 for all")
	}
	if filtered {
		filters = s.addFilters(cmd)
	}
	cmd.RunE = s.showing(v, func(cmd *cobra.Command, args []string, p *printer) error {
		if *limit < 0 {
			return usageError{fmt.Errorf("--limit is 0 or more, not %d", *limit)}
		}
		query, err := parametersOf(filters, parameters)
		if err != nil {
			return err
		}
		return s.list(cmd.Context(), p, cmp.Or(*limit, math.MaxInt64), func(page ...client.RequestOption) ([]byte, error) {
			return fetch(cmd.Context(), s.client, args, append(page, client.Queries(query))...)
		})
	})
	return cmd
}

// list prints a list, page after page.
func (s *session) list(ctx context.Context, p *printer, limit int64, fetch func(page ...client.RequestOption) ([]byte, error)) error {
	for {
		var page []client.RequestOption
		if !p.whole {
			size := min(longestPage, limit-p.records)
			page = append(page, client.Query("page_size", strconv.FormatInt(size, 10)))
		}
		if p.next != "" {
			page = append(page, client.Query("cursor", p.next))
		}
		answer, err := fetch(page...)
		if err == nil {
			err = p.page(ctx, answer)
		}
		switch {
		case err != nil:
			return errors.Join(err, p.end()) // also writes the pages before the error
		case p.next != "" && p.records < limit:
			continue
		case p.next != "" && s.people():
			s.note(fmt.Sprintf("There are more than these %d; --limit 0 shows all.", p.records))
		case p.records == 0 && s.people():
			s.note(fmt.Sprintf("There are no %s that match.", p.noun))
		}
		return p.end()
	}
}

// getCommand makes the command that shows one record. If its usage ends with "...", it shows several records.
func (s *session) getCommand(use, short, example string, v view, fetch call) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: argumentsOf(use),
		RunE: s.showing(v, func(cmd *cobra.Command, args []string, p *printer) error {
			if len(args) > 1 {
				return s.getEach(cmd.Context(), p, named(args), fetch)
			}
			var header http.Header
			answer, err := fetch(cmd.Context(), s.client, named(args), client.SeeHeader(&header))
			if err != nil {
				return err
			}
			p.console = client.PageOf(header)
			return p.one(cmd.Context(), answer)
		}),
	}
}

// getEach prints records one after another. With --fields it prints a table. If the server does not know an id, for example
// because the message was archived meanwhile, getEach prints the other records and returns an error.
func (s *session) getEach(ctx context.Context, p *printer, ids []string, fetch call) error {
	var missing []error
	var rows []json.RawMessage
	for _, id := range ids {
		answer, err := fetch(ctx, s.client, []string{id})
		failed, isAnswer := errors.AsType[*client.APIError](err)
		switch {
		case isAnswer && failed.Status == http.StatusNotFound:
			missing = append(missing, fmt.Errorf("%s: %w", id, err))
		case err != nil:
			return errors.Join(p.end(), err)
		case len(p.fields) > 0 && p.isTable():
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
