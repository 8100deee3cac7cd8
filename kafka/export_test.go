package kafka

import "context"

// PublishAll is one pass over the outbox.
func (a *Archiver) PublishAll(ctx context.Context) { a.publishAll(ctx) }
