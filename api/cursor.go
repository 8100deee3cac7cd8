package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"dlqmanager/dlq"
)

// A cursor is the position after one message in one order of the list. It is opaque to
// callers; the version allows another format later.
const (
	cursorVersion = 2
	cursorSize    = 18 // version, order, microseconds since 1970, seq
)

var (
	errCursor      = errors.New("is not a cursor of this list")
	errCursorOrder = errors.New("belongs to the other sort order")

	cursorEncoding = base64.RawURLEncoding.Strict()
)

func encodeCursor(position dlq.Keyset, oldestFirst bool) string {
	b := make([]byte, 2, cursorSize)
	b[0], b[1] = cursorVersion, cursorOrder(oldestFirst)
	b = binary.BigEndian.AppendUint64(b, uint64(position.CreatedAt.UnixMicro()))
	return cursorEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(position.Seq)))
}

func decodeCursor(cursor string, oldestFirst bool) (position dlq.Keyset, err error) {
	b, err := cursorEncoding.DecodeString(cursor) // which ignores line breaks
	if err != nil || len(b) != cursorSize || len(cursor) != cursorEncoding.EncodedLen(cursorSize) || b[0] != cursorVersion || b[1] > 1 {
		return dlq.Keyset{}, errCursor
	}
	position.CreatedAt = time.UnixMicro(int64(binary.BigEndian.Uint64(b[2:]))).UTC()
	position.Seq = int64(binary.BigEndian.Uint64(b[10:]))
	if position.Seq < 0 {
		return dlq.Keyset{}, errCursor
	}
	if b[1] != cursorOrder(oldestFirst) {
		return dlq.Keyset{}, errCursorOrder
	}
	return position, nil
}

func cursorOrder(oldestFirst bool) byte {
	if oldestFirst {
		return 1
	}
	return 0
}
