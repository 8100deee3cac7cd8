package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"time"

	"dlqmanager/dlq"
)

// A cursor is the position after one entry of a list. It is opaque to callers. Its first byte is the version of its list,
// so that no list accepts the cursor of another, and another format may follow later.
const (
	cursorVersion          = 2
	operationCursorVersion = 3
	groupCursorVersion     = 4
	jobCursorVersion       = 5
	retryCursorVersion     = 6
)

// The bytes of the cursors of messages, of groups, and of lists by time. A time is in microseconds since 1970.
type (
	messagePlace struct {
		Version, Order byte
		At, Seq        int64
	}
	groupPlace struct {
		Version byte
		List    uint32
		Rank    int64
		ID      dlq.ID
	}
	operationPlace struct {
		Version byte
		At      int64
		ID      dlq.ID
	}
)

var (
	errCursor      = errors.New("is not a cursor of this list")
	errCursorOrder = errors.New("belongs to the other sort order")
	errGroupCursor = errors.New("belongs to a list with another sort, topic or state")

	cursorEncoding = base64.RawURLEncoding.Strict()
)

// cursorOf reads the cursor of a list; nil if it is not given.
func cursorOf[T any](q *query, decode func(cursor string) (T, error)) *T {
	cursor, given := q.one("cursor")
	if !given {
		return nil
	}
	position, err := decode(cursor)
	if err != nil {
		q.reject("cursor", "%s", err)
	}
	return &position
}

func encodePlace(place any) string {
	b, _ := binary.Append(nil, binary.BigEndian, place) // a struct of a fixed size always encodes
	return cursorEncoding.EncodeToString(b)
}

func decodePlace(cursor string, version byte, place any) error {
	b, err := cursorEncoding.DecodeString(cursor) // which ignores line breaks
	size := binary.Size(place)
	if err != nil || len(b) != size || len(cursor) != cursorEncoding.EncodedLen(size) || b[0] != version {
		return errCursor
	}
	_, err = binary.Decode(b, binary.BigEndian, place)
	return err
}

func encodeCursor(position dlq.Keyset, oldestFirst bool) string {
	return encodePlace(messagePlace{cursorVersion, cursorOrder(oldestFirst), position.CreatedAt.UnixMicro(), position.Seq})
}

func decodeCursor(cursor string, oldestFirst bool) (dlq.Keyset, error) {
	var place messagePlace
	switch err := decodePlace(cursor, cursorVersion, &place); {
	case err != nil || place.Order > 1 || place.Seq < 0:
		return dlq.Keyset{}, errCursor
	case place.Order != cursorOrder(oldestFirst):
		return dlq.Keyset{}, errCursorOrder
	}
	return dlq.Keyset{CreatedAt: time.UnixMicro(place.At).UTC(), Seq: place.Seq}, nil
}

func cursorOrder(oldestFirst bool) byte {
	if oldestFirst {
		return 1
	}
	return 0
}

func encodeOperationCursor(version byte, position dlq.OperationCursor) string {
	return encodePlace(operationPlace{version, position.At.UnixMicro(), position.ID})
}

func decodeOperationCursor(version byte, cursor string) (dlq.OperationCursor, error) {
	var place operationPlace
	if err := decodePlace(cursor, version, &place); err != nil {
		return dlq.OperationCursor{}, err
	}
	return dlq.OperationCursor{At: time.UnixMicro(place.At).UTC(), ID: place.ID}, nil
}

// operationCursor reads the cursor of a list by time.
func (q *query) operationCursor(version byte) *dlq.OperationCursor {
	return cursorOf(q, func(cursor string) (dlq.OperationCursor, error) { return decodeOperationCursor(version, cursor) })
}

func encodeGroupCursor(position dlq.GroupCursor, list *dlq.GroupQuery) string {
	return encodePlace(groupPlace{groupCursorVersion, groupList(list), position.Rank, position.ID})
}

func decodeGroupCursor(cursor string, list *dlq.GroupQuery) (dlq.GroupCursor, error) {
	var place groupPlace
	switch err := decodePlace(cursor, groupCursorVersion, &place); {
	case err != nil:
		return dlq.GroupCursor{}, err
	case place.List != groupList(list):
		return dlq.GroupCursor{}, errGroupCursor
	case place.Rank < 0 || place.Rank > lastTime.UnixMicro(): // the database has no such time
		return dlq.GroupCursor{}, errCursor
	}
	return dlq.GroupCursor{Rank: place.Rank, ID: place.ID}, nil
}

// groupList tells lists of groups with another order or filter apart.
func groupList(q *dlq.GroupQuery) uint32 {
	h := fnv.New32a()
	for _, part := range []string{string(q.Sort), q.Topic, string(q.State)} {
		_, _ = h.Write(append([]byte(part), 0)) // never fails
	}
	return h.Sum32()
}
