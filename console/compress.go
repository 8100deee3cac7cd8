package console

import (
	"compress/gzip"
	"net/http"
	"strings"
)

// compressed compresses pages. A page has no secret that an attacker could guess from its compressed length.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		compressing := &gzipWriter{ResponseWriter: w}
		defer compressing.close()
		next.ServeHTTP(compressing, r)
	})
}

// gzipWriter begins to compress at the first byte of a body, so that answers without a body stay empty.
type gzipWriter struct {
	http.ResponseWriter

	status int
	zip    *gzip.Writer
}

func (w *gzipWriter) WriteHeader(status int) { w.status = status }

func (w *gzipWriter) Write(content []byte) (int, error) {
	if w.zip == nil {
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Encoding", "gzip")
		w.sendStatus()
		w.zip = gzip.NewWriter(w.ResponseWriter)
	}
	return w.zip.Write(content)
}

func (w *gzipWriter) sendStatus() {
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *gzipWriter) close() {
	if w.zip == nil {
		w.sendStatus()
		return
	}
	_ = w.zip.Close() // Close fails only if the browser is gone
}
