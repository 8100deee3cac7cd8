package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	"dlqmanager/dlq"
)

// asked is an operation like those that the API records.
var asked = dlq.Operation{Subject: "bench", Method: "token", Address: "127.0.0.1", Action: dlq.PermMessageDead,
	Reason: "the consumer is repaired", RequestID: "req_0123456789ab"}

// measureAccess compares a request with and without authentication, and a change with and without
// its row in the audit.
func (b *bench) measureAccess(ctx context.Context) error {
	if err := b.template(ctx, "access", seedTopic{name: bulkTopic, pending: max(b.few, 2*b.runs*b.calls)}); err != nil {
		return err
	}
	return b.onCopy(ctx, "access", func(db *database, k *broker) error {
		if err := b.measureTokens(ctx, b.newSite(db, k, b.tuned)); err != nil {
			return err
		}
		return b.measureAudit(ctx, db)
	})
}

// measureTokens reads one message with a static token and without authentication.
func (b *bench) measureTokens(ctx context.Context, s *site) (err error) {
	open, err := b.start(ctx, s, "api")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.kill()) }()
	file := filepath.Join(b.dir, "tokens.yaml")
	token, err := exec.CommandContext(ctx, filepath.Join(b.programs, "api"), "token", "new", "-name", "bench", "-role", "viewer", "-file", file).Output()
	if err != nil {
		return fmt.Errorf("create a token: %w", err)
	}
	guarded, err := b.start(ctx, s, "api", "DLQ_AUTH_MODE=token", "DLQ_AUTH_TOKENS_FILE="+file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guarded.kill()) }()
	var id [16]byte
	if err := s.db.pool.QueryRow(ctx, "SELECT id FROM dlq.dlq_messages LIMIT 1").Scan(&id); err != nil {
		return err
	}
	read := func(p *program) func() error {
		return func() error { return readMessage(ctx, p.base, strings.TrimSpace(string(token)), dlq.ID(id)) }
	}
	return b.addedTime(ctx, "request with a static token", "read of one message over REST with a static token; baseline: without authentication",
		goal{atMost: 1.2}, read(guarded), read(open))
}

func readMessage(ctx context.Context, base, token string, id dlq.ID) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/dlq/messages/"+id.String(), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	// The connection can be reused once the body is read.
	if _, err = io.Copy(io.Discard, response.Body); response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d", request.URL, response.StatusCode)
	}
	return errors.Join(err, response.Body.Close())
}

// measureAudit marks messages dead with and without an operation.
func (b *bench) measureAudit(ctx context.Context, db *database) error {
	var ids [][16]byte
	if err := db.pool.QueryRow(ctx, "SELECT array_agg(id) FROM dlq.dlq_messages").Scan(&ids); err != nil {
		return err
	}
	markDead := func(by *dlq.Operation) func() error {
		return func() error {
			id := dlq.ID(ids[0])
			ids = ids[1:]
			_, err := db.store.MarkDead(ctx, by, id)
			return err
		}
	}
	return b.addedTime(ctx, "change with its audit row", "a message is marked dead and the audit says who asked; baseline: without the audit",
		goal{atMost: 1.5}, markDead(&asked), markDead(nil))
}

// addedTime times two calls alternately and adds a row.
func (b *bench) addedTime(ctx context.Context, label, title string, target goal, ours, base func() error) error {
	var with, without, ratios spread
	for run := range b.runs {
		b.step("%s, run %d of %d", label, run+1, b.runs)
		var a, z spread
		for range b.calls {
			for _, side := range []struct {
				call  func() error
				times *spread
			}{{ours, &a}, {base, &z}} {
				took, err := timed(ctx, 0, side.call)
				if err != nil {
					return err
				}
				*side.times = append(*side.times, took)
			}
		}
		with, without, ratios = append(with, a.median()), append(without, z.median()), append(ratios, a.median()/z.median())
	}
	b.add(row{number: 18, label: label, title: title, ours: with.show(milliseconds), base: without.show(milliseconds), judged: ratios, goal: target})
	return nil
}
