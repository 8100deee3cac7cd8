package dlq

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// ID identifies a dead letter, a group, a job or an operation by a UUID (RFC 9562): version 8 if the UUID is computed (RecordID,
// RestoredID, GroupID), else version 7 (NewID). Except for groups, ids begin with a time. So new rows are appended to the
// index of the primary key, and an insert does not cost more in a large table.
type ID [16]byte

var idClock struct {
	sync.Mutex
	last uint64 // the last 60 bits used: 48 of milliseconds, 12 of sequence
}

// NewID returns a version 7 UUID, greater than every earlier ID of this process, even if the clock steps back.
func NewID() ID {
	idClock.Lock()
	next := uint64(time.Now().UnixMilli()) << 12
	if next <= idClock.last {
		next = idClock.last + 1
	}
	idClock.last = next
	idClock.Unlock()

	var id ID
	_, _ = rand.Read(id[8:])                                          // crypto/rand.Read never returns an error
	binary.BigEndian.PutUint64(id[:8], next>>12<<16|7<<12|next&0xfff) // version 7
	id[8] = id[8]&0x3f | 0x80                                         // variant of RFC 9562
	return id
}

// RecordID returns the ID of the dead letter that was read from this source. A record that is read again after a restore of
// the database gets the same ID. The ID is a version 8 UUID that begins with the record's timestamp, as version 7 begins
// with the time of creation. The timestamp also separates two records of the same offset, which an unclean election can
// produce.
func RecordID(source Source, timestamp time.Time) ID {
	var input [36]byte
	copy(input[:], source.TopicID[:])
	binary.BigEndian.PutUint32(input[16:], uint32(source.Partition))
	binary.BigEndian.PutUint64(input[20:], uint64(source.Offset))
	milliseconds := uint64(timestamp.UnixMilli())
	binary.BigEndian.PutUint64(input[28:], milliseconds)
	sum := sha256.Sum256(input[:])

	id := ID(sum[:16])
	binary.BigEndian.PutUint64(id[:8], milliseconds<<16|8<<12|binary.BigEndian.Uint64(sum[:8])&0xfff) // version 8
	id[8] = id[8]&0x3f | 0x80                                                                         // variant of RFC 9562
	return id
}

// RestoredID returns the ID of the message that an archived message becomes by a restore. This ID is always the same, so
// that a message is restored only once. It begins with the time of the archived ID.
func RestoredID(archived ID) ID {
	sum := sha256.Sum256([]byte("restored " + archived.String()))
	id := archived
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x0f | 0x80 // variant of RFC 9562
	return id
}

// ParseID parses the canonical form, 36 characters in either case. Other spellings of a
// UUID (braces, urn:, no hyphens) are refused, so that each message has one address.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("not a UUID: %q", s)
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, fmt.Errorf("not a UUID: %q", s)
	}
	return id, nil
}

// String returns the canonical lower-case form.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[:8], id[:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:], id[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// IsZero reports whether the ID was never set.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText encodes an ID in its canonical form, in JSON and in workflow inputs.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
