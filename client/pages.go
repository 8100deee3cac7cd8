package client

import (
	"context"
	"iter"
)

// AllMessages lists the messages of a topic, page after page. params may be nil; its Cursor is where to begin.
func (c *Client) AllMessages(ctx context.Context, topic string, params *ListMessagesParams, options ...RequestOption) iter.Seq2[ListedMessage, error] {
	p := first(params)
	return pages(&p.Cursor, func() ([]ListedMessage, *string, error) {
		answer, err := c.ListMessages(ctx, topic, &p, options...)
		if err != nil {
			return nil, nil, err
		}
		return answer.Value.Messages, answer.Value.Pagination.NextCursor, nil
	})
}

// AllArchivedMessages lists archived messages as AllMessages does.
func (c *Client) AllArchivedMessages(ctx context.Context, params *ListArchivedMessagesParams, options ...RequestOption) iter.Seq2[ListedMessage, error] {
	p := first(params)
	return pages(&p.Cursor, func() ([]ListedMessage, *string, error) {
		answer, err := c.ListArchivedMessages(ctx, &p, options...)
		if err != nil {
			return nil, nil, err
		}
		return answer.Value.Messages, answer.Value.Pagination.NextCursor, nil
	})
}

// AllJobs lists jobs, page after page.
func (c *Client) AllJobs(ctx context.Context, params *ListJobsParams, options ...RequestOption) iter.Seq2[Job, error] {
	p := first(params)
	return pages(&p.Cursor, func() ([]Job, *string, error) {
		answer, err := c.ListJobs(ctx, &p, options...)
		if err != nil {
			return nil, nil, err
		}
		return answer.Value.Jobs, answer.Value.Pagination.NextCursor, nil
	})
}

// AllSingleRetries lists single retries, page after page.
func (c *Client) AllSingleRetries(ctx context.Context, params *ListSingleRetriesParams, options ...RequestOption) iter.Seq2[SingleRetry, error] {
	p := first(params)
	return pages(&p.Cursor, func() ([]SingleRetry, *string, error) {
		answer, err := c.ListSingleRetries(ctx, &p, options...)
		if err != nil {
			return nil, nil, err
		}
		return answer.Value.Retries, answer.Value.Pagination.NextCursor, nil
	})
}

// AllGroups lists groups, page after page.
func (c *Client) AllGroups(ctx context.Context, params *ListGroupsParams, options ...RequestOption) iter.Seq2[Group, error] {
	p := first(params)
	return pages(&p.Cursor, func() ([]Group, *string, error) {
		answer, err := c.ListGroups(ctx, &p, options...)
		if err != nil {
			return nil, nil, err
		}
		return answer.Value.Groups, answer.Value.Pagination.NextCursor, nil
	})
}

// AllOperations lists the audit, page after page.
func (c *Client) AllOperations(ctx context.Context, params *ListOperationsParams, options ...RequestOption) iter.Seq2[Operation, error] {
	p := first(params)
	return pages(&p.Cursor, func() ([]Operation, *string, error) {
		answer, err := c.ListOperations(ctx, &p, options...)
		if err != nil {
			return nil, nil, err
		}
		return answer.Value.Operations, answer.Value.Pagination.NextCursor, nil
	})
}

// first copies the parameters, because paging changes their cursor.
func first[T any](params *T) T {
	if params == nil {
		return *new(T)
	}
	return *params
}

// pages yields the elements of all pages, and ends with the first error. Another page may follow an empty page.
func pages[T any](cursor **string, page func() ([]T, *string, error)) iter.Seq2[T, error] {
	begin := *cursor
	return func(yield func(T, error) bool) {
		*cursor = begin
		for {
			elements, next, err := page()
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, element := range elements {
				if !yield(element, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			*cursor = next
		}
	}
}
