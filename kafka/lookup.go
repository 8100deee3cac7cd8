package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// lookupTimeout bounds a lookup. An available broker answers in milliseconds.
const lookupTimeout = 4 * time.Second

// Lookup asks Kafka now and then, with a connection for each call. It is safe for concurrent
// use.
type Lookup struct {
	o   Options
	log *zap.Logger
	// slots bounds the lookups at once. Each has a connection, and perhaps a record in memory.
	slots chan struct{}
}

// NewLookup does not connect; the calls do.
func NewLookup(o Options, log *zap.Logger) *Lookup {
	return &Lookup{o: o.withDefaults(), log: log, slots: make(chan struct{}, 4)}
}

// client waits for a slot, and returns a client that occupies the slot until done.
func (l *Lookup) client(ctx context.Context, name string, more ...kgo.Opt) (client *kgo.Client, done func(), err error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if client, err = newClient(append(l.o.connection(l.log, name), more...)); err != nil {
		<-l.slots
		return nil, nil, err
	}
	return client, func() { client.Close(); <-l.slots }, nil
}
