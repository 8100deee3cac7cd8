package kafka

import (
	"encoding/hex"
	"strings"

	"dlqmanager/dlq"
)

// traceID is the trace of the last valid traceparent header, as W3C Trace Context defines
// it, or empty.
func traceID(headers []dlq.Header) (id string) {
	for _, header := range headers {
		if strings.EqualFold(header.Key, "traceparent") {
			if found := traceOf(string(header.Value)); found != "" {
				id = found
			}
		}
	}
	return id
}

// maxTraceparent is longer than any version of the header.
const maxTraceparent = 512

// traceOf reads version-trace-parent-flags. Later versions may have more fields.
func traceOf(traceparent string) string {
	if len(traceparent) > maxTraceparent {
		return ""
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return ""
	}
	for i, length := range []int{2, 32, 16, 2} {
		if len(parts[i]) != length || strings.ToLower(parts[i]) != parts[i] {
			return ""
		}
		if _, err := hex.DecodeString(parts[i]); err != nil {
			return ""
		}
	}
	if strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return ""
	}
	return parts[1]
}

// maxCorrelationID is the longest value that is an id and not something else.
const maxCorrelationID = 255

// correlationID is the value of the first header that names one, or empty. Binary values
// are not text, and stay in the headers only.
func correlationID(headers []dlq.Header) string {
	for _, header := range headers {
		if len(header.Value) == 0 || len(header.Value) > maxCorrelationID {
			continue
		}
		if dlq.IsCorrelationHeader(header.Key) && dlq.StorableText(string(header.Value)) == string(header.Value) {
			return string(header.Value)
		}
	}
	return ""
}
