package api

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// isAmbiguous reports whether a proxy and fasthttp may disagree on where the request ends. Then one of the two would take a
// part of the body for the next request. fasthttp itself refuses two lengths and unknown encodings. But it accepts a length
// together with an encoding, the encoding identity, and blanks in names. isAmbiguous also finds a line that begins with a
// blank, which continues the line before.
func isAmbiguous(h *fasthttp.RequestHeader) bool {
	ends := 0
	for line := range bytes.SplitSeq(h.RawHeaders(), []byte("\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.ContainsAny(name, " \t"):
			return true
		case bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength)):
			ends++
		case bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding)):
			if bytes.EqualFold(bytes.TrimSpace(value), []byte("identity")) {
				return true
			}
			ends++
		}
	}
	return ends > 1
}
