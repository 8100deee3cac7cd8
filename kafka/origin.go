package kafka

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// failureOf reads the origin and the error of a dead letter. It never fails: a value counts as absent if
// its framework does not write values of this form.
func failureOf(topics *dlq.Topics, dlqTopic string, headers []dlq.Header) dlq.Failure {
	found := familiesOf(headers)
	failure := dlq.Failure{
		Origin:        originOf(topics, dlqTopic, headers, found),
		TraceID:       traceID(headers),
		CorrelationID: correlationID(headers),
		Suspicion:     Suspicion(headers),
	}
	for _, f := range slices.Backward(found) { // the last hop first
		if failure.ErrorMessage+failure.ErrorClass == "" {
			hop := f.newestHop(headers)
			failure.ErrorMessage = hop.text(f.message)
			failure.ErrorClass, failure.CauseClass = hop.text(f.class), hop.text(f.cause)
			failure.StackTrace = hop.text(f.stack)
		}
		if failure.Attempts == 0 && failure.ErrorMessage+failure.ErrorClass != "" {
			failure.Attempts = f.attemptCount(headers)
		}
	}
	for i := 0; i < len(found) && failure.Attempts == 0; i++ { // no family names an error
		failure.Attempts = found[i].attemptCount(headers)
	}
	failure.ErrorMessage = cmp.Or(failure.ErrorMessage, dlq.UnknownError)
	return failure
}

// originOf returns the origin of the oldest hop whose topic is no dead-letter topic. If all
// families name dead-letter topics, it returns the origin of the oldest hop. If no family names a
// topic, the origin follows from the name of the dead-letter topic.
func originOf(topics *dlq.Topics, dlqTopic string, headers []dlq.Header, found []*family) dlq.Origin {
	if !slices.Contains(found, &thisSystem) {
		found = append(found[:len(found):len(found)], &thisSystem)
	}
	var first *dlq.Origin
	for _, f := range found {
		origin, ok := f.origin(headers)
		switch {
		case !ok:
			continue
		case origin.Topic != dlqTopic && !topics.IsDeadLetter(origin.Topic):
			return origin
		case first == nil:
			first = &origin
		}
	}
	if first != nil {
		return *first
	}
	topic, group := topics.OriginOf(dlqTopic)
	return dlq.Origin{Topic: topic, ConsumerGroup: group, Family: familyTopicName}
}

// origin reads the origin from the family's headers. ok is false if the headers name no topic that can
// exist.
func (f *family) origin(headers []dlq.Header) (origin dlq.Origin, ok bool) {
	topic := string(f.oldest(headers, f.placed("topic")))
	if f.topic != nil {
		topic = string(f.oldest(headers, f.topic))
	}
	if _, name, isURI := strings.Cut(topic, "://topic/"); isURI && f.name == familyWolverine {
		topic = name // kafka://topic/orders; the scheme is the name of the broker
	}
	if !dlq.IsTopicName(topic) || f.name == dlq.FamilyShareGroup && isTopicID(topic) {
		return dlq.Origin{}, false
	}
	origin = dlq.Origin{Topic: topic, Family: f.name, ConsumerGroup: dlq.StorableText(string(f.oldest(headers, f.group)))}
	if f.oldest(headers, f.retryTopic) != nil {
		return origin, true
	}
	if n, ok := f.number(f.oldest(headers, f.placed("partition")), 4); ok && n <= math.MaxInt32 {
		partition := int32(n)
		origin.Partition = &partition
	}
	if n, ok := f.number(f.oldest(headers, f.placed("offset")), 8); ok {
		origin.Offset = &n
	}
	if n, ok := f.number(f.oldest(headers, f.timestamp), 8); ok {
		origin.Timestamp = time.UnixMilli(n).UTC()
	}
	return origin, true
}

// isTopicID tells whether a text is an id of a topic, a UUID of version 4 in Kafka's encoding. Brokers
// write the id instead of the name if they do not know the name.
func isTopicID(text string) bool {
	id, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(id) == 16 && id[6]>>4 == 4 && id[8]>>6 == 2
}

// attemptCount is 0 when unknown. Early releases of Spring write a single byte.
func (f *family) attemptCount(headers []dlq.Header) int {
	value := valueOf(headers, f.attempts, !f.newestFirst) // at the last hop
	n, ok := f.number(value, 4)
	if f.binary && len(value) == 1 {
		n, ok = int64(value[0]), true
	}
	if !ok || n > maxHeaderRetryCount {
		return 0
	}
	return max(int(n)+f.attemptsOffset, 0)
}

// number reads a number that is not negative. Binary numbers have the given width in bytes.
func (f *family) number(value []byte, width int) (int64, bool) {
	if !f.binary {
		n, err := strconv.ParseInt(string(value), 10, 64)
		return n, err == nil && n >= 0
	}
	switch {
	case len(value) != width:
		return 0, false
	case width == 4:
		n := int64(int32(binary.BigEndian.Uint32(value)))
		return n, n >= 0
	default:
		n := int64(binary.BigEndian.Uint64(value))
		return n, n >= 0
	}
}

// hop has the headers of a hop.
type hop map[string][]byte

// newestHop returns the family's headers of the newest hop. A hop has each header once, so a repeated name
// belongs to an earlier hop. An error without a cause must not get the cause of an earlier hop.
func (f *family) newestHop(headers []dlq.Header) hop {
	newest := hop{}
	for i := range headers {
		if !f.newestFirst {
			i = len(headers) - 1 - i
		}
		if !f.adds(headers[i].Key) {
			continue
		}
		if _, repeats := newest[headers[i].Key]; repeats {
			break
		}
		newest[headers[i].Key] = headers[i].Value
	}
	return newest
}

// text is the value of the first name that is present, as text that can be stored.
func (h hop) text(names []string) string {
	for _, name := range names {
		if value, present := h[name]; present {
			return dlq.StorableText(string(value))
		}
	}
	return ""
}

// oldest returns the value that a field has at the first hop. Frameworks append their headers, unless newestFirst is set.
func (f *family) oldest(headers []dlq.Header, names []string) []byte {
	return valueOf(headers, names, f.newestFirst)
}

// valueOf takes the first listed name that is present, and returns its first value, or its last value if
// fromEnd is set.
func valueOf(headers []dlq.Header, names []string, fromEnd bool) []byte {
	for _, name := range names {
		for i := range headers {
			if fromEnd {
				i = len(headers) - 1 - i
			}
			if headers[i].Key == name {
				return headers[i].Value
			}
		}
	}
	return nil
}

// ownRecord returns the message's record as it was before the failure: only with its own headers, in their order, with
// duplicates. If the header that has the key is empty, the key is null, since the header cannot tell a null key from an
// empty key.
func ownRecord(r *dlq.Record) dlq.Record {
	own, added := *r, familiesOf(r.Headers)
	own.Headers = without(r.Headers, added)
	for _, f := range added {
		if value := f.oldest(r.Headers, f.key); value != nil {
			if own.Key = value; len(value) == 0 {
				own.Key = nil
			}
			break
		}
	}
	return own
}

// ownPointed is ownRecord for the record that a message points to. That record is no dead letter, so its headers stay even if
// their names belong to a header family.
func ownPointed(r dlq.Record) dlq.Record {
	r.Headers = without(r.Headers, nil)
	return r
}

// ComesOff tells which headers of a dead letter are removed when it is sent back: the headers of families and of bookkeeping,
// the header in which a consumer names the message's group, and the headers that earlier retries have added.
func ComesOff(headers []dlq.Header) func(dlq.Header) bool { return addedBy(familiesOf(headers)) }

func addedBy(added []*family) func(dlq.Header) bool {
	added = append(added, &bookkeeping)
	return func(header dlq.Header) bool {
		switch header.Key {
		case headerMessageID, headerRetryCount, dlq.DefaultGroupHeader:
			return true
		case watermillID:
			if len(header.Value) == 0 {
				return true
			}
		}
		return slices.ContainsFunc(added, func(f *family) bool { return f.adds(header.Key) })
	}
}

// without removes the headers that come off a message with these families.
func without(headers []dlq.Header, added []*family) []dlq.Header {
	return slices.DeleteFunc(slices.Clone(headers), addedBy(added))
}
