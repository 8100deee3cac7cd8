package registry

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxCachedText limits the text of all cached schemas, in bytes. A compiled schema takes up to
	// fifty times the memory of its text.
	maxCachedText = 1 << 20
	// maxUnusable limits the number of ids that are cached as unusable. Each is cached for unusableTTL.
	maxUnusable = 4096
	unusableTTL = time.Minute
)

// cache has the schemas that were used most recently, and the ids of schemas that cannot be used.
// Unusable ids do not displace schemas, and schemas do not displace unusable ids.
type cache struct {
	mu       sync.Mutex
	schemas  map[uint32]*entry
	text     int // the length of the text of all schemas
	unusable map[uint32]unusableID
}

type entry struct {
	schema *schema
	used   time.Time
}

type unusableID struct {
	err   error // why the schema cannot be used
	until time.Time
}

func newCache() *cache {
	return &cache{schemas: map[uint32]*entry{}, unusable: map[uint32]unusableID{}}
}

// get returns the schema of an id, or the reason why the schema cannot be used. Both are nil for an id that is not cached.
func (c *cache) get(id uint32) (*schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.schemas[id]; e != nil {
		e.used = time.Now()
		return e.schema, nil
	}
	if u, ok := c.unusable[id]; ok && time.Now().Before(u.until) {
		return nil, u.err
	}
	return nil, nil //nolint:nilnil // the id is not cached
}

// add caches a schema. While the text of all schemas exceeds the limit, add removes the least recently used schema.
func (c *cache) add(id uint32, s *schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(id)
	c.schemas[id] = &entry{s, time.Now()}
	for c.text += s.size; c.text > maxCachedText; {
		c.remove(slices.MinFunc(slices.Collect(maps.Keys(c.schemas)), func(a, b uint32) int {
			return c.schemas[a].used.Compare(c.schemas[b].used)
		}))
	}
}

func (c *cache) remove(id uint32) {
	if e := c.schemas[id]; e != nil {
		delete(c.schemas, id)
		c.text -= e.schema.size
	}
}

// addUnusable caches an id as unusable. When there are too many, addUnusable first forgets all unusable ids. Most
// of the ids come from values that only look as if they were in the wire format, and few of them occur again.
func (c *cache) addUnusable(id uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unusable) >= maxUnusable {
		clear(c.unusable)
	}
	c.unusable[id] = unusableID{err, time.Now().Add(unusableTTL)}
}
