package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"

	"dlqmanager/dlq"
)

// encodeHeaders encodes headers as a Kafka record does: their count, and then the length and bytes of each key and
// value. A null value has the length -1. Numbers are zigzag varints.
func encodeHeaders(headers []dlq.Header) []byte {
	size := binary.MaxVarintLen32
	for _, h := range headers {
		size += 2*binary.MaxVarintLen32 + len(h.Key) + len(h.Value)
	}
	b := binary.AppendVarint(make([]byte, 0, size), int64(len(headers)))
	for _, h := range headers {
		b = binary.AppendVarint(b, int64(len(h.Key)))
		b = append(b, h.Key...)
		if h.Value == nil {
			b = binary.AppendVarint(b, -1)
			continue
		}
		b = binary.AppendVarint(b, int64(len(h.Value)))
		b = append(b, h.Value...)
	}
	return b
}

// readHeaders decodes the stored headers of a message. Another program may have changed them.
func readHeaders(id dlq.ID, b []byte) ([]dlq.Header, error) {
	headers, err := decodeHeaders(b)
	if err != nil {
		err = fmt.Errorf("message %s: %w; correct them in dlq.dlq_message_bodies and revive the message, or delete the message", id, err)
	}
	return headers, err
}

var errHeaders = errors.New("stored headers are damaged")

// decodeHeaders is the inverse of encodeHeaders: nil for no headers. The values share the memory of b.
func decodeHeaders(b []byte) ([]dlq.Header, error) {
	if len(b) == 0 {
		return nil, nil
	}
	count, b, err := readVarint(b)
	if err != nil {
		return nil, err
	}
	if count < 0 || count > int64(len(b)) { // each header takes two bytes or more
		return nil, fmt.Errorf("%w: %d headers in %d bytes", errHeaders, count, len(b))
	}
	if count == 0 {
		return nil, nil
	}
	headers := make([]dlq.Header, count)
	for i := range headers {
		var key []byte
		if key, b, err = readBytes(b); err != nil {
			return nil, err
		}
		headers[i].Key = string(key)
		if headers[i].Value, b, err = readBytes(b); err != nil {
			return nil, err
		}
	}
	return headers, nil
}

func readVarint(b []byte) (int64, []byte, error) {
	value, n := binary.Varint(b)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: a number is truncated", errHeaders)
	}
	return value, b[n:], nil
}

// readBytes reads a length and that many bytes. The length -1 gives nil.
func readBytes(b []byte) (value, rest []byte, err error) {
	length, b, err := readVarint(b)
	if err != nil {
		return nil, nil, err
	}
	if length == -1 {
		return nil, b, nil
	}
	if length < 0 || length > int64(len(b)) {
		return nil, nil, fmt.Errorf("%w: a length of %d in %d bytes", errHeaders, length, len(b))
	}
	return b[:length:length], b[length:], nil
}
