package workflows_test

import (
	"context"
	"encoding"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// Every field that goes into Temporal has a fixed JSON name. A running workflow must not
// lose its state when a Go field is renamed.
func TestEveryFieldThatGoesIntoTemporalHasANameInJSON(t *testing.T) {
	t.Parallel()
	sent := []reflect.Type{
		reflect.TypeFor[workflows.PauseUpdate](), reflect.TypeFor[workflows.RateUpdate](), reflect.TypeFor[activities.LaneReport](), reflect.TypeFor[activities.ChangeReport](),
		reflect.TypeFor[dlq.NotRetryableError](), reflect.TypeFor[dlq.OwnedError](), // details of errors
	}
	for _, function := range []any{workflows.RetryMessage, workflows.RetryAll, workflows.ChangeAll, workflows.ArchiveMessages} {
		sent = append(sent, argumentsOf(reflect.TypeOf(function))...)
	}
	for _, steps := range []any{&activities.Retry{}, &activities.Jobs{}, &activities.Archive{}} {
		for method := range reflect.TypeOf(steps).Methods() {
			sent = append(sent, argumentsOf(method.Type)...)
		}
	}
	seen := map[reflect.Type]bool{}
	for _, root := range sent {
		requireNames(t, root, seen)
	}
	require.True(t, seen[reflect.TypeFor[dlq.Filter]()] && seen[reflect.TypeFor[activities.LaneInput]()] && seen[reflect.TypeFor[workflows.Resumed]()] && seen[reflect.TypeFor[dlq.JobSpec]()],
		"it has not looked at everything: %v", seen)
}

// argumentsOf are the types that a function takes and returns.
func argumentsOf(function reflect.Type) []reflect.Type {
	return slices.AppendSeq(slices.Collect(function.Ins()), function.Outs())
}

func requireNames(t *testing.T, of reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		requireNames(t, of.Elem(), seen)
		return
	case reflect.Struct:
	default:
		return
	}
	ours := strings.HasPrefix(of.PkgPath(), "dlqmanager/")
	if seen[of] || !ours || of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || of == reflect.TypeFor[time.Time]() ||
		of == reflect.TypeFor[activities.Retry]() || of == reflect.TypeFor[activities.Jobs]() || of == reflect.TypeFor[activities.Archive]() ||
		of.Implements(reflect.TypeFor[context.Context]()) {
		return
	}
	seen[of] = true
	for field := range of.Fields() {
		if !field.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue // the field does not go into Temporal
		}
		if !field.Anonymous {
			require.NotEmpty(t, name, "%s.%s has no name in JSON", of, field.Name)
		}
		requireNames(t, field.Type, seen)
	}
}
