package registry

import (
	"maps"
	"slices"
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
	schemas map[uint32]*entry
	text    int // of all schemas
	misses  map[uint32]miss
}

type entry struct {
	schema *schema
	used   time.Time
}

type miss struct {
	err   error
	until time.Time
}

func newCache() *cache { return &cache{schemas: map[uint32]*entry{}, misses: map[uint32]miss{}} }

// get returns a schema, or why the id cannot be used, or neither.
func (c *cache) get(id uint32) (*schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.schemas[id]; e != nil {
		e.used = time.Now()
		return e.schema, nil
	}
	if m, ok := c.misses[id]; ok && time.Now().Before(m.until) {
		return nil, m.err
	}
	return nil, nil //nolint:nilnil // unknown is neither
}

// add forgets the schemas that were not used for longest, once their text exceeds the limit.
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

// addMiss forgets all misses when there are too many: most of them are values that only look as if
// they were in the wire format.
func (c *cache) addMiss(id uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.misses) >= maxMisses {
		clear(c.misses)
	}
	c.misses[id] = miss{err, time.Now().Add(missTTL)}
}
