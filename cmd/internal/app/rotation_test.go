package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/internal/certtest"
	"dlqmanager/internal/dlqtest"
)

// rotatesThePassword changes the password in the server first, as secret stores do. It changes the file after the server has
// refused the earlier password.
func rotatesThePassword(t *testing.T, server *securePostgres) {
	server.exec(t, `CREATE ROLE static LOGIN PASSWORD 'secret-0' IN ROLE dlq_app`)
	d := server.section(t, "static", "")
	d.PasswordFile, d.ConnMaxLifetime = certtest.File(t, []byte("secret-0\n")), config.Duration(100*time.Millisecond)
	p := open(t, d)
	callers := startLoad(t, p)
	const refused = `password authentication failed for user "static"`
	for i := range 5 {
		refusals := strings.Count(server.log.String(), refused)
		password := fmt.Sprint("secret-", i+1)
		server.exec(t, fmt.Sprintf(`ALTER ROLE static PASSWORD '%s'`, password))
		require.Eventually(t, func() bool { return strings.Count(server.log.String(), refused) > refusals },
			time.Minute, time.Millisecond)
		certtest.Replace(t, d.PasswordFile, []byte(password))
		connections := p.pool.Stat().NewConnsCount()
		require.Eventually(t, func() bool { return p.pool.Stat().NewConnsCount() > connections+5 }, time.Minute, 5*time.Millisecond)
		callers.goesOn(t)
	}
	callers.end(t)
}

// rotatesTheUser replaces the files of the user and of the password, in both orders. It drops the earlier user as soon as the
// pool no longer uses it.
func rotatesTheUser(t *testing.T, server *securePostgres) {
	server.exec(t, `CREATE ROLE leased_0 LOGIN PASSWORD 'secret-0' IN ROLE dlq_app`)
	d := server.section(t, "", "")
	d.UserFile, d.PasswordFile = certtest.File(t, []byte("leased_0")), certtest.File(t, []byte("secret-0"))
	p := open(t, d) // connections have their default lifetime of five minutes
	callers := startLoad(t, p)
	for i := range 4 {
		user, password := fmt.Sprint("leased_", i+1), fmt.Sprint("secret-", i+1)
		server.exec(t, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE dlq_app`, user, password))
		files := []func(){
			func() { certtest.Replace(t, d.UserFile, []byte(user)) }, func() { certtest.Replace(t, d.PasswordFile, []byte(password)) },
		}
		files[i%2]()
		files[1-i%2]()
		require.Eventually(t, func() bool {
			var earlier, newer int
			require.NoError(t, server.admin.QueryRow(context.Background(), `
				SELECT count(*) FILTER (WHERE usename <> $1), count(*) FILTER (WHERE usename = $1)
				FROM pg_stat_activity WHERE usename LIKE 'leased_%'`, user).Scan(&earlier, &newer))
			return earlier == 0 && newer > 0
		}, time.Minute, 5*time.Millisecond)
		server.exec(t, fmt.Sprintf(`DROP ROLE leased_%d`, i))
		callers.goesOn(t)
	}
	callers.end(t)
}

// load are several callers that use the store at the same time.
type load struct {
	rounds, failures atomic.Int64
	first            atomic.Pointer[error]
	stop             func()
}

// startLoad starts callers that use the store until the test ends or stop is called.
func startLoad(t *testing.T, p *parts) *load {
	t.Helper()
	require.NoError(t, p.checked(t))
	ctx, cancel := context.WithCancel(context.Background())
	l, callers := &load{}, sync.WaitGroup{}
	for range 6 {
		callers.Go(func() {
			partition := dlq.Partition{TopicID: dlq.NewID()}
			for ctx.Err() == nil {
				if err := useStore(context.Background(), p, partition); err != nil {
					l.failures.Add(1)
					l.first.CompareAndSwap(nil, &err)
				}
				l.rounds.Add(1)
			}
		})
	}
	l.stop = func() { cancel(); callers.Wait() }
	t.Cleanup(l.stop)
	return l
}

// goesOn waits until the callers have used the store 30 more times.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	before := l.rounds.Load()
	require.Eventually(t, func() bool { return l.rounds.Load() > before+30 }, time.Minute, 5*time.Millisecond)
}

// end stops the callers, and requires that none of their calls failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	if err := l.first.Load(); err != nil {
		t.Fatalf("%d of %d rounds failed, the first: %v", l.failures.Load(), l.rounds.Load(), *err)
	}
}

// useStore stores messages of a partition as the ingest does, changes three of them, and reads messages. It returns the first
// error.
func useStore(ctx context.Context, p *parts, partition dlq.Partition) error {
	s, database := p.store, p.database
	arrivals, from := dlqtest.Arrivals(10), dlq.Start
	owner := dlqtest.Owner()
	sent, dead, deleted := arrivals[0].ID, arrivals[1].ID, arrivals[2].ID
	for _, call := range []func() error{
		func() error {
			at, err := s.Positions(ctx, []dlq.Partition{partition})
			if err == nil {
				from = at[0]
			}
			return err
		},
		func() error {
			to := dlq.Position{Next: from.Next + 10}
			stored, err := s.Ingest(ctx, arrivals, []dlq.Advance{{Partition: partition, Topic: "orders.dlq", From: from, To: to}})
			if err == nil && len(stored) != len(arrivals) {
				err = fmt.Errorf("%d messages are stored", len(stored))
			}
			return err
		},
		func() error { _, err := s.Claim(ctx, sent, owner, dlq.ID{}); return err },
		func() error { _, err := s.Envelope(ctx, sent, owner); return err },
		func() error {
			_, ended, err := s.Finalize(ctx, owner, dlqtest.Delivered(sent))
			if err == nil && !ended {
				err = errors.New("the claim was lost")
			}
			return err
		},
		func() error { _, err := s.MarkDead(ctx, nil, dead); return err },
		func() error { _, err := database.Revive(ctx, nil, dead); return err },
		func() error { return s.Delete(ctx, nil, deleted) },
		func() error { _, err := dlqtest.Detail(ctx, s, sent); return err },
		func() error { _, err := s.List(ctx, dlq.ListQuery{PageSize: 10}); return err },
		func() error { _, err := database.Topics(ctx); return err },
		func() error { _, err := database.Unpublished(ctx); return err },
		func() error { return database.Ping(ctx) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}
