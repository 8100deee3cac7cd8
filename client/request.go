package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// request is one call before it is sent.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
	// isPoll is set if the request is repeated until its context ends.
	isPoll bool
	// isKnown is set if the server has answered an earlier poll, so the awaited job exists.
	isKnown bool
	// isStream is set for an export, whose answer may take any time. end gets the last line of the answer.
	isStream bool
	end      *EndLine
	// seen gets the header of the answer.
	seen *http.Header
}

// RequestOption changes one request.
type RequestOption func(*request)

// Query adds a query parameter. It is for the parameters whose names the caller chooses: `header.NAME`,
// `payload.PATH`, `not.header.NAME` and `not.payload.PATH`.
func Query(name string, values ...string) RequestOption {
	return func(r *request) {
		for _, value := range values {
			r.query.Add(name, value)
		}
	}
}

// Queries adds query parameters.
func Queries(values url.Values) RequestOption {
	return func(r *request) {
		for name, values := range values {
			r.query[name] = append(r.query[name], values...)
		}
	}
}

// Header sets a header.
func Header(name, value string) RequestOption {
	return func(r *request) { r.header.Set(name, value) }
}

// SeeHeader stores the header of a successful answer.
func SeeHeader(header *http.Header) RequestOption { return func(r *request) { r.seen = header } }

func newRequest(method, path string) *request {
	return &request{method: method, path: path, query: url.Values{}, header: http.Header{}}
}

func (r *request) String() string { return r.method + " " + r.path }

// check refuses an id or a topic that would lead to another path of the server.
func (r *request) check() error {
	for segment := range strings.SplitSeq(strings.TrimPrefix(r.path, "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%s: an id or a topic cannot be %q", r, segment)
		}
	}
	return nil
}

// setQuery adds a parameter unless value is nil. With explode, each element of a list is a parameter; else commas join the elements.
func (r *request) setQuery(name string, value any, explode bool) {
	texts := texts(reflect.ValueOf(value))
	if !explode && len(texts) > 1 {
		texts = []string{strings.Join(texts, ",")}
	}
	for _, text := range texts {
		r.query.Add(name, text)
	}
}

func (r *request) setHeader(name string, value any) {
	if texts := texts(reflect.ValueOf(value)); len(texts) > 0 {
		r.header.Set(name, strings.Join(texts, ", "))
	}
}

// texts returns the texts of a parameter: no text for nil, and a text for each element of a list.
func texts(value reflect.Value) []string {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return nil
		}
		value = value.Elem()
	}
	if value.Kind() == reflect.Slice {
		all := make([]string, 0, value.Len())
		for i := range value.Len() {
			all = append(all, texts(value.Index(i))...)
		}
		return all
	}
	if at, ok := value.Interface().(time.Time); ok {
		return []string{at.Format(time.RFC3339Nano)}
	}
	return []string{fmt.Sprint(value.Interface())}
}

// Values is a field that has one value or a list in JSON. It is written as a list.
type Values[T any] []T

// UnmarshalJSON reads a list or its only value.
func (v *Values[T]) UnmarshalJSON(content []byte) error {
	if strings.HasPrefix(string(content), "[") {
		return json.Unmarshal(content, (*[]T)(v))
	}
	*v = make(Values[T], 1)
	return json.Unmarshal(content, &(*v)[0])
}

// OrNull is a field that tells null from an absent value: its zero value is null.
type OrNull[T any] struct{ Value *T }

// MarshalJSON writes the value or null.
func (o OrNull[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// UnmarshalJSON reads the value or null.
func (o *OrNull[T]) UnmarshalJSON(content []byte) error { return json.Unmarshal(content, &o.Value) }
