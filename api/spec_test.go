package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	validationerrors "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/stretchr/testify/require"
)

// readSpecification leaves out the discriminators, since the validator does not resolve the references next to them. Without
// discriminators, the kinds of jobs still exclude each other.
func readSpecification() ([]byte, error) {
	content, err := os.ReadFile("openapi.yaml")
	return discriminators.ReplaceAll(content, nil), err
}

var discriminators = regexp.MustCompile(`(?m)^ +discriminator:\n( +propertyName: .*\n| +mapping:\n| +[a-z]+: '#/components/schemas/\w+'\n)+`)

var specification = sync.OnceValues(func() (validator.Validator, error) {
	content, err := readSpecification()
	if err != nil {
		return nil, err
	}
	document, err := libopenapi.NewDocument(content)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return v, nil
})

// validating is held while a test uses the validator, since the validator may not be safe for concurrent use.
var validating sync.Mutex

// violations lists the differences between a response and the specification.
func violations(t testing.TB, request *http.Request, got response) []string {
	t.Helper()
	v, err := specification()
	require.NoError(t, err)
	validating.Lock()
	defer validating.Unlock()
	_, errs := v.ValidateHttpResponse(request, &http.Response{
		StatusCode: got.status, Header: got.header, Body: io.NopCloser(strings.NewReader(got.body)), Request: request,
	})
	return textsOf(errs)
}

// requestViolations lists the differences between a request and the specification.
func requestViolations(t testing.TB, request *http.Request) []string {
	t.Helper()
	v, err := specification()
	require.NoError(t, err)
	validating.Lock()
	defer validating.Unlock()
	_, errs := v.ValidateHttpRequest(request)
	return textsOf(errs)
}

func textsOf(errs []*validationerrors.ValidationError) []string {
	var texts []string
	for _, e := range errs {
		texts = append(texts, e.Message+": "+e.Reason)
		for _, cause := range e.SchemaValidationErrors {
			texts = append(texts, fmt.Sprintf("  %s: %s", cause.KeywordLocation, cause.Reason))
		}
	}
	return texts
}

// requireConforms checks a response. In a stream, it checks each line.
func requireConforms(t testing.TB, request *http.Request, got response) {
	t.Helper()
	if got.header.Get("Content-Type") == "application/x-ndjson" && strings.Count(got.body, "\n") > 1 {
		for line := range strings.Lines(got.body) {
			requireConforms(t, request, response{got.status, got.header, line})
		}
		return
	}
	if found := violations(t, request, got); len(found) > 0 {
		require.Fail(t, "the response differs from openapi.yaml", "%s %s: %d\n%s\n%s",
			request.Method, request.URL, got.status, got.body, strings.Join(found, "\n"))
	}
}

func readResponse(t testing.TB, connection net.Conn) response {
	t.Helper()
	got, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return response{status: got.StatusCode, header: got.Header, body: string(content)}
}

var offsets atomic.Int64

func nextOffset() int64 { return offsets.Add(1) }

func TestTheSpecificationIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	v, err := specification()
	require.NoError(t, err)
	validating.Lock()
	defer validating.Unlock()
	ok, errs := v.ValidateDocument()
	require.True(t, ok, "%v", errs)
}

func TestTheExamplesOfTheSpecificationMatchItsSchemas(t *testing.T) {
	t.Parallel()
	content, err := readSpecification()
	require.NoError(t, err)
	document, err := libopenapi.NewDocument(content)
	require.NoError(t, err)
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	validate := schema_validation.NewSchemaValidator()
	examples := 0
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			check := func(where string, media *v3.MediaType) {
				one := func(example interface{ Decode(any) error }) {
					examples++
					var value any
					require.NoError(t, example.Decode(&value))
					ok, errs := validate.ValidateSchemaObject(media.Schema.Schema(), value)
					require.True(t, ok, "%s %s %s: %v", method, path, where, textsOf(errs))
				}
				if media.Example != nil {
					one(media.Example)
				}
				for _, example := range media.Examples.FromOldest() {
					one(example.Value)
				}
			}
			if operation.RequestBody != nil {
				for _, media := range operation.RequestBody.Content.FromOldest() {
					check("request", media)
				}
			}
			for status, answer := range operation.Responses.Codes.FromOldest() {
				for _, media := range answer.Content.FromOldest() {
					check(status, media)
				}
			}
		}
	}
	require.Greater(t, examples, 100)
}

// Any request can be refused because the server is full, or because the client sends too much.
func TestEveryOperationDocumentsTheAnswersOfTheLimits(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	document, err := libopenapi.NewDocument(content)
	require.NoError(t, err)
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			for _, code := range []string{"503", "4XX"} {
				answer := operation.Responses.Codes.GetOrZero(code)
				require.NotNil(t, answer, "%s %s %s", method, path, code)
				require.NotNil(t, answer.Headers.GetOrZero("Retry-After"), "%s %s %s", method, path, code)
			}
		}
	}
}

// A response with an extra field, a missing field or an undocumented code must be found: all other tests depend on this check.
func TestTheSpecificationCatchesDrift(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	for _, path := range []string{
		"/api/v1/dlq", "/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/messages/" + id.String(), "/healthz", "/readyz",
		"/api/v1/dlq/messages/not-a-uuid",
	} {
		request, got := w.send(http.MethodGet, path, nil)
		requireConforms(t, request, got)

		extra := got
		extra.body = strings.Replace(got.body, "{", `{"surprise":1,`, 1)
		require.NotEmpty(t, violations(t, request, extra), path)

		without := got
		first := strings.SplitN(strings.TrimPrefix(got.body, "{"), ":", 2)[0]
		without.body = strings.Replace(got.body, first, `"renamed"`, 1)
		require.NotEmpty(t, violations(t, request, without), path)

		undocumented := got
		undocumented.status = http.StatusTeapot
		undocumented.body = `{}`
		require.NotEmpty(t, violations(t, request, undocumented), path)

		anonymous := got
		anonymous.header = got.header.Clone()
		anonymous.header.Del("X-Request-Id")
		require.NotEmpty(t, violations(t, request, anonymous), path)
	}
	request, got := w.send(http.MethodGet, "/api/v1/dlq/orders.dlq.v1", nil)
	got.body = strings.Replace(got.body, `"dlq_topic"`, `"surprise":1,"dlq_topic"`, 1)
	require.NotEmpty(t, violations(t, request, got), "a field too many inside a message")
	_, got = w.send(http.MethodGet, "/api/v1/dlq/orders.dlq.v1", nil)
	got.body = strings.Replace(got.body, "+00:00", "Z", 1)
	require.NotEmpty(t, violations(t, request, got), "a time in another form")
}
