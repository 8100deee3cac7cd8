package registry

import (
	"sync"
	"time"
)

const (
	// maxCachedText limits the text of all cached schemas. In memory a schema is up to fifty
	// times as large.
	maxCachedText = 1 << 20
	// maxMisses and missTTL limit the ids that are known to be of no use.
	maxMisses = 4096
	missTTL   = time.Minute
)

// cache has the schemas that were used last, and the ids that cannot be used. The two do not
// displace each other.
type cache struct {
	mu      sync.Mutex
	schemas lru[*schema]
	misses  lru[miss]
}

type miss struct {
	err   error
	until time.Time
}

func newCache() *cache {
	return &cache{schemas: newLRU[*schema](maxCachedText), misses: newLRU[miss](maxMisses)}
}

// get returns a schema, or why the id cannot be used, or neither.
func (c *cache) get(id uint32) (*schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas.get(id); ok {
		return s, nil
	}
	if m, ok := c.misses.get(id); ok && time.Now().Before(m.until) {
		return nil, m.err
	}
	return nil, nil //nolint:nilnil // unknown is neither
}

func (c *cache) add(id uint32, s *schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schemas.add(id, s, s.size)
}

func (c *cache) addMiss(id uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.misses.add(id, miss{err, time.Now().Add(missTTL)}, 1)
}

// lru forgets the entries that were not used for longest, once their weight exceeds the limit.
type lru[V any] struct {
	limit, weight int
	clock         int // counts uses
	entries       map[uint32]*lruEntry[V]
}

type lruEntry[V any] struct {
	value        V
	weight, used int
}

func newLRU[V any](limit int) lru[V] { return lru[V]{limit: limit, entries: map[uint32]*lruEntry[V]{}} }

func (l *lru[V]) get(id uint32) (value V, ok bool) {
	entry, ok := l.entries[id]
	if !ok {
		return value, false
	}
	l.clock++
	entry.used = l.clock
	return entry.value, true
}

func (l *lru[V]) add(id uint32, value V, weight int) {
	l.remove(id)
	l.clock++
	l.entries[id] = &lruEntry[V]{value, weight, l.clock}
	for l.weight += weight; l.weight > l.limit; {
		l.remove(l.oldest())
	}
}

func (l *lru[V]) oldest() (oldest uint32) {
	used := l.clock + 1
	for id, entry := range l.entries {
		if entry.used < used {
			oldest, used = id, entry.used
		}
	}
	return oldest
}

func (l *lru[V]) remove(id uint32) {
	if entry, ok := l.entries[id]; ok {
		delete(l.entries, id)
		l.weight -= entry.weight
	}
}
