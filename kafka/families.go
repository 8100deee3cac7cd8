package kafka

import (
	"cmp"
	"slices"
	"strings"

	"dlqmanager/dlq"
)

// family is a header family: the headers in which a framework describes a dead letter.
//
// Each field for a header, such as class, lists the possible names of the header. The first listed name
// that is present counts. A dead letter that went through several dead-letter topics has the headers of
// each hop.
type family struct {
	name string
	// headers are the names of all headers that the framework adds; a * at the end stands for any ending.
	// By default, one of these headers shows the family. If required is set, all of its headers must be
	// present. If either is set, at least one of its headers must be present too. All headers of the family
	// are removed when the message is sent back.
	headers  []string
	required []string
	either   []string

	// The origin comes from the headers of the oldest hop. place is the prefix of the names that end in
	// "topic", "partition" and "offset". If topic is set, it replaces the name that ends in "topic". key is
	// for frameworks that give the dead letter a key of its own: the header has the key of the failed
	// record.
	place                        string
	topic, timestamp, group, key []string
	// If a header of retryTopic is present, partition and offset describe a record of a retry topic, and
	// are not read.
	retryTopic []string
	// The error comes from the newest hop.
	class, cause, message, stack, attempts []string

	// binary means that numbers are big-endian. Otherwise numbers are decimal text.
	binary bool
	// attemptsOffset is added to the number in the header: some frameworks count the next attempt too, and
	// some only the retries.
	attemptsOffset int
	// newestFirst is set when the framework puts its headers before the headers of earlier hops.
	newestFirst bool
}

// Names of families, as dlq.Origin.Family has them.
const (
	familyThisSystem = "this-system"
	familySmallRye   = "smallrye"
	familyKarafka    = "karafka"
	familyWolverine  = "wolverine"
	// familyTopicName is for a dead letter whose headers do not name its origin. The
	// origin then follows from the name of the dead-letter topic.
	familyTopicName = "topic-name"
)

// families are tried in this order. A dead letter has several families if it went through the dead-letter
// topics of several frameworks.
var families = []family{
	{
		// DeadLetterPublishingRecoverer. Origin headers are appended at each hop, exception
		// headers are replaced.
		name:      "spring-kafka",
		headers:   []string{"kafka_dlt-*"},
		binary:    true,
		place:     "kafka_dlt-original-",
		timestamp: []string{"kafka_dlt-original-timestamp"},
		group:     []string{"kafka_dlt-original-consumer-group"},
		class:     []string{"kafka_dlt-exception-fqcn", "kafka_dlt-key-exception-fqcn"},
		cause:     []string{"kafka_dlt-exception-cause-fqcn"},
		message:   []string{"kafka_dlt-exception-message", "kafka_dlt-key-exception-message"},
		stack:     []string{"kafka_dlt-exception-stacktrace", "kafka_dlt-key-exception-stacktrace"},
		attempts:  []string{"kafka_deliveryAttempt"}, // if the listener's container is configured to count
	},
	{
		// The recoverer of @RetryableTopic. Its header for the group has the same name as in spring-kafka.
		name:      dlq.FamilyRetryable,
		headers:   []string{"kafka_original-*", "kafka_exception-*", "kafka_key-exception-*"},
		binary:    true,
		place:     "kafka_original-",
		timestamp: []string{"kafka_original-timestamp"},
		group:     []string{"kafka_dlt-original-consumer-group"},
		class:     []string{"kafka_exception-fqcn", "kafka_key-exception-fqcn"},
		cause:     []string{"kafka_exception-cause-fqcn"},
		message:   []string{"kafka_exception-message", "kafka_key-exception-message"},
		stack:     []string{"kafka_exception-stacktrace", "kafka_key-exception-stacktrace"},
		attempts:  []string{"retry_topic-attempts"},
		// A record that was tried once has attempt 2 in its header.
		attemptsOffset: -1,
	},
	{
		name: "spring-cloud-stream",
		headers: []string{
			"x-original-topic", "x-original-partition", "x-original-offset", "x-original-timestamp", "x-original-timestamp-type",
			"x-exception-fqcn", "x-exception-message", "x-exception-stacktrace",
		},
		binary:    true,
		place:     "x-original-",
		timestamp: []string{"x-original-timestamp"},
		class:     []string{"x-exception-fqcn"},
		message:   []string{"x-exception-message"},
		stack:     []string{"x-exception-stacktrace"},
	},
	{
		name:    "kafka-connect",
		headers: []string{"__connect.errors.*"},
		place:   "__connect.errors.",
		class:   []string{"__connect.errors.exception.class.name"},
		message: []string{"__connect.errors.exception.message"},
		stack:   []string{"__connect.errors.exception.stacktrace"},
	},
	{
		// KIP-1034. Older error handlers use the same prefix with the endings of Connect.
		name:    "kafka-streams",
		headers: []string{"__streams.errors.*"},
		place:   "__streams.errors.",
		class:   []string{"__streams.errors.exception", "__streams.errors.exception.class.name"},
		message: []string{"__streams.errors.message", "__streams.errors.exception.message"},
		stack:   []string{"__streams.errors.stacktrace", "__streams.errors.exception.stacktrace", "__streams.errors.exception.stack_trace"},
	},
	{
		// KIP-1191
		name:     dlq.FamilyShareGroup,
		headers:  []string{"__dlq.errors.*"},
		place:    "__dlq.errors.",
		group:    []string{"__dlq.errors.group"},
		message:  []string{"__dlq.errors.message"},
		attempts: []string{"__dlq.errors.delivery.count"},
	},
	{
		name:        familySmallRye,
		headers:     []string{"dead-letter-*", "deserialization-failure-*"},
		required:    []string{"dead-letter-reason"},
		newestFirst: true,
		place:       "dead-letter-",
		class:       []string{"dead-letter-exception-class-name"},
		cause:       []string{"dead-letter-cause-class-name"},
		message:     []string{"dead-letter-reason"},
	},
	{
		// The failure strategy delayed-retry-topic uses these names also after its last retry.
		name:        familySmallRye,
		headers:     []string{"delayed-retry-*", "deserialization-failure-*"},
		required:    []string{"delayed-retry-reason"},
		newestFirst: true,
		place:       "delayed-retry-",
		timestamp:   []string{"delayed-retry-original-timestamp"},
		class:       []string{"delayed-retry-exception-class-name"},
		cause:       []string{"delayed-retry-cause-class-name"},
		message:     []string{"delayed-retry-reason"},
		attempts:    []string{"delayed-retry-count"},

		attemptsOffset: 1,
	},
	{
		name:     "watermill",
		headers:  []string{"topic_poisoned", "reason_poisoned", "handler_poisoned", "subscriber_poisoned"},
		topic:    []string{"topic_poisoned"},
		message:  []string{"reason_poisoned"},
		attempts: []string{"_watermill_requeuer_retries"},

		attemptsOffset: 1,
	},
	{
		name:     "micronaut",
		headers:  []string{"micronaut-kafka-*"},
		place:    "micronaut-kafka-original-",
		class:    []string{"micronaut-kafka-exception-class"},
		message:  []string{"micronaut-kafka-exception-message"},
		attempts: []string{"micronaut-kafka-retry-attempt"},

		attemptsOffset: 1,
	},
	{
		// Helidon also adds a header "topic", with the name of the dead-letter topic.
		name:     "helidon",
		headers:  []string{"dlq-error", "dlq-error-msg", "dlq-orig-topic", "dlq-orig-offset", "dlq-orig-partition", "topic"},
		required: []string{"dlq-orig-topic", "dlq-orig-partition", "dlq-orig-offset"},
		place:    "dlq-orig-",
		class:    []string{"dlq-error"},
		message:  []string{"dlq-error-msg"},
	},
	{
		// The names are so general that a single name proves nothing.
		name: familyKarafka,
		headers: []string{
			"source_topic", "source_partition", "source_offset", "source_key", "source_consumer_group", "source_attempts", "source_trace_id",
		},
		required: []string{"source_topic", "source_partition", "source_offset"},
		place:    "source_",
		group:    []string{"source_consumer_group"},
		attempts: []string{"source_attempts"},
	},
	{
		// Karafka before 2.5. It gives the dead letter the number of the partition as its key.
		name: familyKarafka,
		headers: []string{
			"original_topic", "original_partition", "original_offset", "original_key", "original_consumer_group", "original_attempts",
		},
		required: []string{"original_topic", "original_partition", "original_offset"},
		place:    "original_",
		group:    []string{"original_consumer_group"},
		key:      []string{"original_key"},
		attempts: []string{"original_attempts"},
	},
	{
		// Wolverine for .NET, StampFailureMetadata in src/Wolverine/Transports/DeadLetterQueueConstants.cs of
		// JasperFx/wolverine. Beside the exception headers, earlier versions wrote only failed-at, and no
		// original-destination. Wolverine keeps the headers in a dictionary, so each header is there once, and
		// describes the newest hop. After retry topics (MoveToKafkaRetryTopicContinuation.cs), original-destination
		// names the last retry topic.
		name: familyWolverine,
		headers: []string{
			"exception-type", "exception-message", "exception-stack", "failed-at",
			"original-destination", "original-partition", "original-offset", "attempts",
		},
		required:   []string{"exception-type"},
		either:     []string{"original-destination", "failed-at"},
		topic:      []string{"wolverine-kafka-retry-source", "original-destination"},
		place:      "original-",
		retryTopic: []string{"wolverine-kafka-retry-source"},
		class:      []string{"exception-type"},
		message:    []string{"exception-message"},
		stack:      []string{"exception-stack"},
		attempts:   []string{"wolverine-kafka-retry-attempt", "attempts"},
	},
}

// thisSystem is used only when no other family is present, since a header named "error"
// alone says little.
var thisSystem = family{
	name:    familyThisSystem,
	headers: []string{"original_topic", "error"},
	topic:   []string{"original_topic"},
	message: []string{"error"},
}

// watermillID is the id that Watermill gives to a message. The id is part of the message, but
// Watermill also adds it, empty, to a dead letter whose producer did not use Watermill.
const watermillID = "_watermill_message_uuid"

// bookkeeping are headers in which frameworks count their own retries of a record, or keep
// the exception for the next consumer. They are always removed, since a consumer would take
// them for its own headers.
var bookkeeping = family{
	headers: []string{
		"retry_topic-*",   // Spring @RetryableTopic
		"delayed-retry-*", // SmallRye
		"kafka_deliveryAttempt", "springDeserializerExceptionKey", "springDeserializerExceptionValue",
		"_watermill_requeuer_retries",
		"wolverine-kafka-retry-*",
	},
}

// familiesOf returns the families of a dead letter, sorted by the place of their last header:
// a framework appends its headers, so the family of the last hop comes last. A family that
// puts its headers first cannot be placed, and counts as the oldest.
func familiesOf(headers []dlq.Header) []*family {
	var found []*family
	present := initialsOf(headers, func(h dlq.Header) string { return h.Key })
	for i := range families {
		if present&familyInitials[i] != 0 && families[i].isPresent(headers) {
			found = append(found, &families[i])
		}
	}
	if len(found) == 0 && thisSystem.isPresent(headers) {
		found = append(found, &thisSystem)
	}
	if len(found) > 1 {
		slices.SortStableFunc(found, func(a, b *family) int { return cmp.Compare(a.lastHeader(headers), b.lastHeader(headers)) })
	}
	return found
}

// familyInitials are the initials of each family's header names. Most headers of a message have the initial of no family,
// and comparing them with the names of all families would take longer than the rest of building a record.
var familyInitials = func() (all []uint64) {
	for i := range families {
		f := &families[i]
		all = append(all, initialsOf(slices.Concat(f.headers, f.required), func(name string) string { return name }))
	}
	return all
}()

// initialsOf is the set of the first bytes of names, as bits. Bytes that are 64 apart share a bit.
func initialsOf[T any](things []T, name func(T) string) (set uint64) {
	for _, thing := range things {
		if name := name(thing); name != "" {
			set |= 1 << (name[0] % 64)
		}
	}
	return set
}

func (f *family) lastHeader(headers []dlq.Header) int {
	for i, header := range slices.Backward(headers) {
		if f.adds(header.Key) && !f.newestFirst {
			return i
		}
	}
	return -1
}

func (f *family) isPresent(headers []dlq.Header) bool {
	for _, name := range f.required {
		if !slices.ContainsFunc(headers, func(h dlq.Header) bool { return h.Key == name }) {
			return false
		}
	}
	if f.either != nil && !slices.ContainsFunc(headers, func(h dlq.Header) bool { return slices.Contains(f.either, h.Key) }) {
		return false
	}
	return f.required != nil || slices.ContainsFunc(headers, func(h dlq.Header) bool { return f.adds(h.Key) })
}

// adds reports whether the framework adds headers of this name.
func (f *family) adds(key string) bool {
	for _, name := range f.headers {
		if prefix, ok := strings.CutSuffix(name, "*"); ok && strings.HasPrefix(key, prefix) || name == key {
			return true
		}
	}
	return false
}

// placed returns the header name that place and an ending form, or nil if place is not set.
func (f *family) placed(ending string) []string {
	if f.place == "" {
		return nil
	}
	return []string{f.place + ending}
}
