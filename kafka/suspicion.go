package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"dlqmanager/dlq"
)

// Suspicion returns why a message with these headers must not be sent back before a person has seen it, or an
// empty text. It knows two attacks on Spring Kafka that were published in 2026. Retry headers of an
// impossible length make a consumer fail without end, or send the record elsewhere. Headers with types make
// the consumer load a class of the attacker's choice.
func Suspicion(headers []dlq.Header) string {
	var names map[string]bool // made once, because a hostile record can have many headers with types
	for _, header := range headers {
		var reason string
		switch header.Key {
		case "retry_topic-original-timestamp", "retry_topic-backoff-timestamp":
			reason = suspiciousNumber(header.Value)
		case "retry_topic-attempts":
			reason = suspiciousAttempts(header.Value)
		case jsonTypesHeader:
			if names == nil {
				names = namesOf(headers)
			}
			reason = suspiciousTypes(header.Value, names)
		}
		if reason != "" {
			return header.Key + " " + reason
		}
	}
	return lostValue(headers)
}

// lostValue recognises a dead letter of SmallRye whose key could not be deserialised, although its value
// could. The framework has then replaced the value by the bytes of the key, so a retry would send another
// value than the consumer got.
func lostValue(headers []dlq.Header) string {
	const keyData, valueData = "deserialization-failure-key-data", "deserialization-failure-value-data"
	if valueOf(headers, []string{keyData}, false) == nil || valueOf(headers, []string{valueData}, false) != nil {
		return ""
	}
	return keyData + " without " + valueData + ": the framework has replaced the value by the key"
}

// suspiciousNumber accepts the bytes of a Java BigInteger: 9 bytes hold any long.
func suspiciousNumber(value []byte) string {
	if len(value) < 1 || len(value) > 9 {
		return fmt.Sprintf("has %d bytes, and the framework writes 1 to 9", len(value))
	}
	if value[0] >= 0x80 {
		return "is negative"
	}
	return ""
}

func suspiciousAttempts(value []byte) string {
	if len(value) == 1 {
		return "" // early releases write the attempts in one byte
	}
	if len(value) != 4 {
		return fmt.Sprintf("has %d bytes, and the framework writes 4", len(value))
	}
	if n, ok := (&family{binary: true}).number(value, 4); !ok || n == 0 || n > maxHeaderRetryCount {
		return "is no possible number of attempts"
	}
	return ""
}

// jsonTypesHeader names the Java types of other headers of the record, as a JSON object.
const jsonTypesHeader = "spring_json_header_types"

// maxTypes is in bytes, and bounds the memory of decoding. No real record has so many headers with a type.
const maxTypes = 64 << 10

// javaType is the name of a class, a primitive type or an array.
var javaType = regexp.MustCompile(`^[\[\w$.;\]]{1,512}$`)

func namesOf(headers []dlq.Header) map[string]bool {
	names := make(map[string]bool, len(headers))
	for _, header := range headers {
		names[header.Key] = true
	}
	return names
}

// suspiciousTypes accepts types for headers that the record has. A value that is no JSON object makes the
// consumer's header mapper fail for each record.
func suspiciousTypes(value []byte, present map[string]bool) string {
	if len(value) > maxTypes {
		return fmt.Sprintf("has %d bytes", len(value))
	}
	var types map[string]string
	if err := json.Unmarshal(value, &types); err != nil || types == nil {
		return "is not a JSON object of names and types"
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		typeName := types[name]
		switch {
		case !present[name]:
			return fmt.Sprintf("has a type for %q, which the record does not have", dlq.StorableText(truncated(name)))
		case !javaType.MatchString(typeName):
			return fmt.Sprintf("has %q, which is no Java type", dlq.StorableText(truncated(typeName)))
		}
	}
	return ""
}

// truncated shortens text that comes from a header.
func truncated(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
