package api

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"time"

	"dlqmanager/dlq"
)

// A cursor has a hash of the list's name, and the place of an entry in the list. The name includes the order of the list. So a
// list refuses the cursors of other lists and of other orders. A cursor is opaque to callers.

// Names of lists. For lists of groups and of messages, the name depends on the order; see groupList and messageList.
const (
	auditList = "audit"
	jobList   = "jobs"
	retryList = "retries"
)

const badCursor = "is not a cursor of this list with these parameters"

var cursorEncoding = base64.RawURLEncoding.Strict()

// encodeCursor encodes a dlq.Place or a messagePlace.
func encodeCursor(list string, place any) string {
	b := binary.BigEndian.AppendUint32(nil, hashOf(list))
	b, _ = binary.Append(b, binary.BigEndian, place) // a struct of a fixed size always encodes
	return cursorEncoding.EncodeToString(b)
}

// decodeCursor decodes a cursor into place. It reports whether the cursor belongs to the list.
func decodeCursor(cursor, list string, place any) bool {
	b, err := cursorEncoding.DecodeString(cursor) // DecodeString ignores line breaks
	size := 4 + binary.Size(place)
	if err != nil || len(b) != size || len(cursor) != cursorEncoding.EncodedLen(size) || binary.BigEndian.Uint32(b) != hashOf(list) {
		return false
	}
	_, err = binary.Decode(b[4:], binary.BigEndian, place)
	return err == nil
}

func hashOf(list string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(list)) // never fails
	return h.Sum32()
}

// cursorOf reads the parameter cursor. It returns nil if the parameter is not given.
func cursorOf[P any](q *query, list string) *P {
	cursor, given := q.one("cursor")
	if !given {
		return nil
	}
	place := new(P)
	if !decodeCursor(cursor, list, place) {
		q.reject("cursor", badCursor)
	}
	return place
}

// messagePlace is a dlq.Keyset. Its time is in microseconds since 1970.
type messagePlace struct{ At, Seq int64 }

func messageList(oldestFirst bool) string {
	return "messages, oldest first: " + strconv.FormatBool(oldestFirst)
}

func messageCursor(k dlq.Keyset, oldestFirst bool) string {
	return encodeCursor(messageList(oldestFirst), messagePlace{k.CreatedAt.UnixMicro(), k.Seq})
}

// keyset reads the cursor of a list of messages.
func (q *query) keyset(oldestFirst bool) *dlq.Keyset {
	place := cursorOf[messagePlace](q, messageList(oldestFirst))
	if place == nil {
		return nil
	}
	if place.Seq < 0 {
		q.reject("cursor", badCursor)
	}
	return &dlq.Keyset{CreatedAt: time.UnixMicro(place.At).UTC(), Seq: place.Seq}
}

// cursorPaginationView describes a page of a list without page numbers.
type cursorPaginationView struct {
	PageSize   int     `json:"page_size"`
	HasNext    bool    `json:"has_next"`
	NextCursor *string `json:"next_cursor"`
}

func pagination(list string, size int, next *dlq.Place) cursorPaginationView {
	view := cursorPaginationView{PageSize: size, HasNext: next != nil}
	if next != nil {
		view.NextCursor = new(encodeCursor(list, *next))
	}
	return view
}
