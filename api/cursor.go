package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"dlqmanager/dlq"
)

// A cursor is the place after one message in one order of the list. Callers
// must not look inside: the version lets it change.
const (
	cursorVersion = 2
	cursorSize    = 18 // version, order, microseconds since 1970, seq
)

var (
	errCursor      = errors.New("is not a cursor of this list")
	errCursorOrder = errors.New("belongs to the other sort order")

	cursorEncoding = base64.RawURLEncoding.Strict()
)

func encodeCursor(place dlq.Keyset, oldestFirst bool) string {
	b := make([]byte, 2, cursorSize)
	b[0], b[1] = cursorVersion, cursorOrder(oldestFirst)
	b = binary.BigEndian.AppendUint64(b, uint64(place.CreatedAt.UnixMicro()))
	return cursorEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(place.Seq)))
}

func decodeCursor(cursor string, oldestFirst bool) (place dlq.Keyset, err error) {
	b, err := cursorEncoding.DecodeString(cursor)
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion || b[1] > 1 {
		return dlq.Keyset{}, errCursor
	}
	place.CreatedAt = time.UnixMicro(int64(binary.BigEndian.Uint64(b[2:]))).UTC()
	place.Seq = int64(binary.BigEndian.Uint64(b[10:]))
	if place.Seq < 0 {
		return dlq.Keyset{}, errCursor
	}
	if b[1] != cursorOrder(oldestFirst) {
		return dlq.Keyset{}, errCursorOrder
	}
	return place, nil
}

func cursorOrder(oldestFirst bool) byte {
	if oldestFirst {
		return 1
	}
	return 0
}
