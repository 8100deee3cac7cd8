package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

const (
	// archiveInterval is how often the Archiver looks for exhausted messages.
	archiveInterval = 3 * time.Second

	// archiveWarnings is the shortest time between two warnings.
	archiveWarnings = time.Minute
)

// ExhaustedStore has the exhausted messages that must still be published.
type ExhaustedStore interface {
	// ExhaustedTopics returns their dead-letter topics.
	ExhaustedTopics(ctx context.Context) ([]string, error)
	// PublishExhausted passes the first messages of a topic after the given one to
	// publish, and forgets those for which it returns true. It returns the messages that
	// it passed. While another call publishes, the error is dlq.ErrBlocked.
	PublishExhausted(ctx context.Context, topic string, after dlq.Exhausted, publish func([]dlq.Exhausted) []bool) ([]dlq.Exhausted, error)
}

// Archiver publishes exhausted messages to the archive topics. Each is published once. If
// the process dies after a publish, it is published again, with the same id. Several
// archivers may run at once.
type Archiver struct {
	publisher *Publisher
	store     ExhaustedStore
	archives  *dlq.ArchiveTopics
	log       *zap.Logger
	published *prometheus.CounterVec
	labels    boundedLabel
	warnedAt  time.Time
}

// NewArchiver returns an archiver that uses the publisher's connections.
func NewArchiver(publisher *Publisher, store ExhaustedStore, archives *dlq.ArchiveTopics, log *zap.Logger, reg prometheus.Registerer) *Archiver {
	a := &Archiver{publisher: publisher, store: store, archives: archives, log: log,
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_exhausted_published_total",
			Help: "Exhausted messages published to their archive topic, by dead-letter topic. Topics beyond the first 1000 are counted as \"other\".",
		}, []string{"topic"})}
	if reg != nil {
		reg.MustRegister(a.published)
	}
	return a
}

// Run publishes until ctx ends. A running publish is completed.
func (a *Archiver) Run(ctx context.Context) {
	ticker := time.NewTicker(archiveInterval)
	defer ticker.Stop()
	for {
		if err := a.publishAll(ctx); err != nil && ctx.Err() == nil && time.Since(a.warnedAt) > archiveWarnings {
			a.warnedAt = time.Now()
			a.log.Warn("exhausted messages wait for their archive topic; trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// publishAll publishes what it can. A topic that fails does not stop the others.
func (a *Archiver) publishAll(ctx context.Context) error {
	topics, err := a.store.ExhaustedTopics(ctx)
	if err != nil || len(topics) == 0 {
		return err
	}
	var failed problems
	archives := make(map[string]string, len(topics))
	for _, topic := range topics {
		archive, err := a.archives.Of(topic)
		failed.add(err)
		if err == nil {
			archives[topic] = archive
		}
	}
	unusable, err := a.unusable(ctx, archives)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		archive, named := archives[topic]
		switch {
		case !named || ctx.Err() != nil:
		case unusable[archive] != nil:
			failed.add(fmt.Errorf("archive topic %q of %q: %w", archive, topic, unusable[archive]))
		default:
			failed.add(a.publishTopic(ctx, topic, archive))
		}
	}
	return failed.err()
}

// unusable returns the archive topics that do not exist, and those that Kafka does not show
// to this client. One request asks for all of them, since a publish to a missing topic
// takes a second to fail.
func (a *Archiver) unusable(ctx context.Context, archives map[string]string) (map[string]error, error) {
	if len(archives) == 0 {
		return nil, nil //nolint:nilnil // without topics, none is unusable
	}
	names := slices.Compact(slices.Sorted(maps.Values(archives)))
	ctx, cancel := context.WithTimeout(ctx, a.publisher.deliveryLimit())
	defer cancel()
	details, err := kadm.NewClient(a.publisher.batched).ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("read the archive topics: %w", err)
	}
	unusable := map[string]error{}
	for _, detail := range details {
		if detail.Err != nil {
			unusable[detail.Topic] = detail.Err
		}
	}
	return unusable, nil
}

// publishTopic publishes the exhausted messages of a topic. It goes on after messages that
// the archive topic refuses as bad data, and stops at any other error.
func (a *Archiver) publishTopic(ctx context.Context, topic, archive string) error {
	var refused error
	for after := (dlq.Exhausted{Seq: math.MinInt64}); ctx.Err() == nil; {
		var failed error
		page, err := a.store.PublishExhausted(ctx, topic, after, func(page []dlq.Exhausted) (done []bool) {
			done, failed = a.publish(ctx, topic, archive, page)
			return done
		})
		switch {
		case errors.Is(err, dlq.ErrBlocked):
			return refused // another worker publishes
		case err != nil || len(page) == 0:
			return errors.Join(err, refused)
		case failed != nil && dlq.CategoryOf(failed) != dlq.CategoryBadData:
			return failed
		case failed != nil:
			refused = failed
		}
		after = page[len(page)-1]
	}
	return refused
}

// publish publishes messages, and returns which of them are done. The error is that of a
// message that failed. Bad data is reported only when nothing else failed.
func (a *Archiver) publish(ctx context.Context, topic, archive string, page []dlq.Exhausted) (done []bool, failed error) {
	done = make([]bool, len(page))
	for i, err := range a.publisher.archive(ctx, archive, page) {
		if err == nil {
			done[i] = true
			if !page[i].Deleted {
				a.published.WithLabelValues(a.labels.of(topic)).Inc()
			}
			continue
		}
		if failed == nil || dlq.CategoryOf(failed) == dlq.CategoryBadData {
			failed = err
		}
	}
	return done, failed
}

// problems are errors of different topics. Only the first few are reported.
type problems struct {
	first []error
	more  int
}

func (p *problems) add(err error) {
	switch {
	case err == nil:
	case len(p.first) < 5:
		p.first = append(p.first, err)
	default:
		p.more++
	}
}

func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.first, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.first...)
}
