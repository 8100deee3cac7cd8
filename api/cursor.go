package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// A cursor is the place after one message in one order of the list. Callers
// must not look inside: the version lets it change.
const (
	cursorVersion = 1
	cursorSize    = 10 // version, order, seq
)

var (
	errCursor      = errors.New("is not a cursor of this list")
	errCursorOrder = errors.New("belongs to the other sort order")

	cursorEncoding = base64.RawURLEncoding.Strict()
)

func encodeCursor(seq int64, oldestFirst bool) string {
	b := make([]byte, 2, cursorSize)
	b[0], b[1] = cursorVersion, cursorOrder(oldestFirst)
	return cursorEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(seq)))
}

func decodeCursor(cursor string, oldestFirst bool) (seq int64, err error) {
	b, err := cursorEncoding.DecodeString(cursor)
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion || b[1] > 1 {
		return 0, errCursor
	}
	if seq = int64(binary.BigEndian.Uint64(b[2:])); seq < 0 {
		return 0, errCursor
	}
	if b[1] != cursorOrder(oldestFirst) {
		return 0, errCursorOrder
	}
	return seq, nil
}

func cursorOrder(oldestFirst bool) byte {
	if oldestFirst {
		return 1
	}
	return 0
}
