package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dlqmanager/dlq"
)

// matches applies a filter.
func matches(e *entry, f *dlq.Filter) bool {
	return inTopic(e, f.Topic) &&
		slices.Contains(f.EffectiveStatuses(), e.Status) &&
		(f.Key == nil || e.Record.Key != nil && bytes.Equal(f.Key, e.Record.Key)) &&
		(f.CreatedFrom.IsZero() || !e.CreatedAt.Before(f.CreatedFrom)) &&
		(f.CreatedTo.IsZero() || e.CreatedAt.Before(f.CreatedTo)) &&
		isWithin(e.DLQTopic, f.Within) &&
		(f.Group.IsZero() || f.Group == e.GroupID) &&
		(f.Class == "" || dlq.IsClass(e.ErrorClass, dlq.StorableText(f.Class)) || dlq.IsClass(e.Failure.CauseClass, dlq.StorableText(f.Class))) &&
		(f.ConsumerGroup == "" || e.Failure.Origin.ConsumerGroup == dlq.StorableText(f.ConsumerGroup)) &&
		equals(f.OriginPartition, e.Failure.Origin.Partition) && equals(f.OriginOffset, e.Failure.Origin.Offset) &&
		(f.TraceID == "" || e.Failure.TraceID == dlq.StorableText(f.TraceID)) &&
		(f.CorrelationID == "" || e.Failure.CorrelationID == dlq.StorableText(f.CorrelationID)) &&
		(f.Suspicious == nil || e.Suspicious == *f.Suspicious) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, e.ID)) &&
		(f.ErrorContains == "" || strings.Contains(strings.ToLower(e.ErrorMessage), strings.ToLower(dlq.StorableText(f.ErrorContains)))) &&
		matchesRecord(e, f)
}

func equals[T comparable](wanted, value *T) bool {
	return wanted == nil || value != nil && *value == *wanted
}

// matchesRecord applies the headers and the payload of a filter.
func matchesRecord(e *entry, f *dlq.Filter) bool {
	for name, value := range f.Headers {
		if !slices.ContainsFunc(e.Record.Headers, func(h dlq.Header) bool { return h.Key == name && h.Value != nil && string(h.Value) == value }) {
			return false
		}
	}
	for path, value := range f.Payload {
		scalar, found := scalarAt(e.Payload, dlq.PayloadPath(dlq.StorableText(path)))
		if !found || scalar != dlq.StorableText(value) {
			return false
		}
	}
	return true
}

// scalarAt is a scalar of a JSON document as JSONB writes it.
func scalarAt(document json.RawMessage, path []string) (text string, found bool) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return "", false
	}
	for _, name := range path {
		switch container := value.(type) {
		case map[string]any:
			if value, found = container[name]; !found {
				return "", false
			}
		case []any:
			i, err := strconv.Atoi(strings.TrimLeft(name, " \t\n\v\f\r"))
			if i < 0 {
				i += len(container)
			}
			if err != nil || i < 0 || i >= len(container) {
				return "", false
			}
			value = container[i]
		default:
			return "", false
		}
	}
	switch scalar := value.(type) {
	case string:
		return scalar, true
	case bool:
		return strconv.FormatBool(scalar), true
	case json.Number:
		return decimal(string(scalar)), true
	default:
		return "", false
	}
}

// decimal writes a JSON number without an exponent, and keeps the zeros of its fraction.
func decimal(number string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	digits, isNegative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	shift, _ := strconv.Atoi(exponent)
	point := len(whole) + shift
	digits = whole + fraction
	if point <= 0 {
		digits, point = strings.Repeat("0", 1-point)+digits, 1
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole, fraction = strings.TrimLeft(digits[:point], "0"), digits[point:]
	text := cmp.Or(whole, "0")
	if fraction != "" {
		text += "." + fraction
	}
	if isNegative && strings.Trim(text, "0.") != "" {
		text = "-" + text
	}
	return text
}

// isWithin reports whether a topic matches the expression of a principal; see
// dlq.Principal.Within.
func isWithin(topic, within string) bool {
	if within == "" {
		return true
	}
	matched, err := regexp.MatchString(within, topic)
	return err == nil && matched
}

func inTopic(e *entry, topic string) bool { return e.DLQTopic == topic || e.OriginalTopic == topic }
