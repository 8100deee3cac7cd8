package api

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// isAmbiguous reports whether a proxy may see another end of the request than fasthttp does,
// so that one of them would take a part of its body for the next request. fasthttp uses the
// last of several lengths, and takes every transfer encoding for chunked.
func isAmbiguous(h *fasthttp.RequestHeader) bool {
	lengths, encodings := 0, 0
	for line := range bytes.SplitSeq(h.RawHeaders(), []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if bytes.ContainsAny(line, "\x00\r") || bytes.HasPrefix(line, []byte(" ")) || bytes.HasPrefix(line, []byte("\t")) {
			return true // the latter two continue the line before, which not every proxy knows
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength)):
			lengths++
		case !bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding)):
		case !isChunked(bytes.Trim(value, " \t")):
			return true
		default:
			encodings++
		}
	}
	return lengths+encodings > 1
}

// isChunked compares lengths too, because EqualFold takes the Kelvin sign for a k.
func isChunked(encoding []byte) bool {
	return len(encoding) == len("chunked") && bytes.EqualFold(encoding, []byte("chunked"))
}
