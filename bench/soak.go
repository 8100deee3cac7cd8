package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	// soakTopic gets bulk retries, soakSingle gets retries of single messages.
	soakTopic, soakSingle = "soak", "soak-single"
	// soakSample is the time between two samples of the processes and tables.
	soakSample = 10 * time.Second
	// soakWarm is the time until caches are full and the first messages have been purged. From then
	// on the measured values must not grow.
	soakWarm = 5 * time.Minute
)

// soakEnv makes the life of a message short: it is archived after two minutes and purged after
// four. So the tables reach their size within the first minutes.
var soakEnv = []string{"DLQ_ARCHIVE_SCHEDULE=@every 1m", "DLQ_ARCHIVE_RETENTION=2m", "DLQ_ARCHIVE_PURGE_AFTER=4m"}

// point is a value at a time since the start.
type point struct {
	at    time.Duration
	value float64
}

// soak is one run with all kinds of load at once.
type soak struct {
	*bench
	began       time.Time
	db          *database
	broker      *broker
	api, worker *program

	mu     sync.Mutex
	names  []string // in the order of their first value
	series map[string][]point
	failed map[string]int
}

// runSoak loads the released programs for a time: dead letters arrive, people list them, retry
// single messages and whole topics, and the archive runs every minute.
func (b *bench) runSoak(ctx context.Context) (_ *soak, err error) {
	s := &soak{bench: b, series: map[string][]point{}, failed: map[string]int{}}
	if s.db, err = b.create(ctx, "soak"); err != nil {
		return nil, err
	}
	defer s.db.pool.Close()
	if s.broker, err = startBroker(ctx, soakTopic, soakTopic+".dlq", soakSingle, soakSingle+".dlq"); err != nil {
		return nil, err
	}
	defer s.broker.stop(context.WithoutCancel(ctx))
	site := b.newSite(s.db, s.broker, b.tuned)
	for name, p := range map[string]**program{"worker": &s.worker, "api": &s.api} {
		if *p, err = b.start(ctx, site, name, soakEnv...); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, (*p).kill()) }()
	}

	s.began = time.Now()
	end := s.began.Add(b.soak)
	group, groupContext := errgroup.WithContext(ctx)
	every := func(interval time.Duration, do func(context.Context) error) {
		group.Go(func() error {
			ticks := time.NewTicker(interval)
			defer ticks.Stop()
			for time.Now().Before(end) {
				select {
				case <-groupContext.Done():
					return groupContext.Err()
				case <-ticks.C:
				}
				if err := do(groupContext); err != nil {
					return err
				}
			}
			return nil
		})
	}
	every(100*time.Millisecond, func(ctx context.Context) error { return s.produce(ctx, soakTopic, b.soakRate/10) })
	every(time.Second, func(ctx context.Context) error { return s.produce(ctx, soakSingle, 2) })
	every(time.Second, s.look)
	every(time.Second, s.retrySingle)
	every(20*time.Second, s.retryAll)
	every(soakSample, s.sample)
	every(time.Minute, func(context.Context) error {
		b.step("soak: %s of %s", time.Since(s.began).Round(time.Second), b.soak)
		return nil
	})
	return s, group.Wait()
}

// add records a value.
func (s *soak) add(name string, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.series[name]; !known {
		s.names = append(s.names, name)
	}
	s.series[name] = append(s.series[name], point{time.Since(s.began), value})
}

func (s *soak) produce(ctx context.Context, topic string, n int) error {
	records := make([]*kgo.Record, n)
	for i := range records {
		sample := s.samples[int(time.Now().UnixNano()/1000+int64(i))%len(s.samples)].Record
		headers := make([]kgo.RecordHeader, 0, len(sample.Headers))
		for _, h := range sample.Headers {
			if h.Key == "original_topic" {
				h.Value = []byte(topic)
			}
			headers = append(headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		records[i] = &kgo.Record{Topic: topic + ".dlq", Key: sample.Key, Value: sample.Value, Headers: headers}
	}
	return s.broker.client.ProduceSync(ctx, records...).FirstErr()
}

// look makes the requests of a person who looks at the lists.
func (s *soak) look(ctx context.Context) error {
	list := "/api/v1/dlq/" + soakTopic + ".dlq?page_size=50"
	for _, call := range []struct{ name, path string }{
		{"topics", "/api/v1/dlq"},
		{"list", list},
		{"search by key", list + "&key=customer-7"},
		{"search by error", list + "&error=" + url.QueryEscape(rareError)},
		{"groups", "/api/v1/groups?topic=" + soakTopic + ".dlq"},
	} {
		if _, err := s.call(ctx, call.name, http.MethodGet, call.path); err != nil {
			return err
		}
	}
	return nil
}

var messageID = regexp.MustCompile(`"id":"([0-9a-f-]{36})"`)

func (s *soak) retrySingle(ctx context.Context) error {
	answer, err := s.call(ctx, "list of pending", http.MethodGet, "/api/v1/dlq/"+soakSingle+".dlq?status=PENDING&page_size=3&sort=created_at")
	if err != nil {
		return err
	}
	for _, id := range messageID.FindAllStringSubmatch(answer, 3) {
		if _, err := s.call(ctx, "single retry", http.MethodPost, "/api/v1/dlq/messages/"+id[1]+"/retry"); err != nil {
			return err
		}
	}
	return nil
}

// retryAll starts a bulk retry of all PENDING messages, and waits for its end.
func (s *soak) retryAll(ctx context.Context) error {
	started := time.Now()
	answer, err := s.call(ctx, "start of a bulk retry", http.MethodPost, "/api/v1/dlq/"+soakTopic+".dlq/retry-all", "Prefer", "respond-async")
	if err != nil {
		return err
	}
	id := regexp.MustCompile(`"job_id":"([0-9a-f-]{36})"`).FindStringSubmatch(answer)
	if id == nil {
		return nil
	}
	for {
		answer, err := s.call(ctx, "view of a bulk retry", http.MethodGet, "/api/v1/jobs/"+id[1])
		if err != nil {
			return err
		}
		if !strings.Contains(answer, `"ended_at":null`) {
			s.add("bulk retry, s", time.Since(started).Seconds())
			return nil
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// call times a request. A failed request is counted, and does not end the run.
func (s *soak) call(ctx context.Context, name, method, path string, headers ...string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.api.base+path, http.NoBody)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	started := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		s.fail(name + ": no answer")
		return "", nil
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		s.fail(fmt.Sprintf("%s: %d", name, response.StatusCode))
		return "", ctx.Err()
	}
	s.add(name+", ms", float64(time.Since(started).Microseconds())/1000)
	return string(text), nil
}

func (s *soak) fail(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[what]++
}

var soakMetrics = []struct {
	name, metric string
	scale        float64
}{
	{"memory, MB", "process_resident_memory_bytes", 1e-6},
	{"goroutines", "go_goroutines", 1},
	{"file descriptors", "process_open_fds", 1},
	{"idle database connections", "dlq_db_pool_connections_idle", 1},
}

const soakTablesSQL = `
SELECT replace(relname, 'dlq_', ''), pg_table_size(oid), pg_indexes_size(oid)
FROM pg_class
WHERE relnamespace = 'dlq'::regnamespace AND relkind = 'r' AND relname IN
	('dlq_messages', 'dlq_message_bodies', 'dlq_messages_archive', 'dlq_retry_attempts', 'dlq_count_batches')
ORDER BY relname`

func (s *soak) sample(ctx context.Context) error {
	for _, p := range []struct {
		name string
		*program
	}{{"API", s.api}, {"worker", s.worker}} {
		text, err := body(ctx, p.base+"/metrics")
		if err != nil {
			return p.failed(err.Error())
		}
		for _, m := range soakMetrics {
			match := regexp.MustCompile(`(?m)^` + m.metric + ` (\S+)$`).FindStringSubmatch(text)
			if match == nil {
				return fmt.Errorf("%s has no metric %s", p.name, m.metric)
			}
			value, err := strconv.ParseFloat(match[1], 64)
			if err != nil {
				return err
			}
			s.add(p.name+" "+m.name, value*m.scale)
		}
	}
	var lag float64
	const oldestSQL = `SELECT COALESCE(EXTRACT(EPOCH FROM now() - min(created_at)), 0) FROM dlq.dlq_messages WHERE status = 'PENDING'`
	if err := s.db.pool.QueryRow(ctx, oldestSQL).Scan(&lag); err != nil {
		return err
	}
	s.add("age of the oldest pending message in s", lag)
	rows, err := s.db.pool.Query(ctx, soakTablesSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var table, indexes float64
		if err := rows.Scan(&name, &table, &indexes); err != nil {
			return err
		}
		s.add("table "+name+", MB", table*1e-6)
		s.add("indexes of "+name+", MB", indexes*1e-6)
	}
	return rows.Err()
}

func body(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// write writes the table and the chart.
func (s *soak) write(out io.Writer) error {
	text := s.markdown()
	if _, err := io.WriteString(out, text); err != nil || s.out == "" {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.out, "soak.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, "soak.svg"), []byte(s.chart()), 0o644)
}
