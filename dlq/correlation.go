package dlq

import "strings"

// correlationNames are the names of the header with the correlation id, in lower case and without punctuation.
var correlationNames = map[string]bool{"correlationid": true, "xcorrelationid": true, "kafkacorrelationid": true}

var withoutPunctuation = strings.NewReplacer("-", "", "_", "", ".", "")

// IsCorrelationHeader tells whether a header of a record has the correlation id.
func IsCorrelationHeader(name string) bool {
	return len(name) <= 32 && correlationNames[strings.ToLower(withoutPunctuation.Replace(name))]
}
