package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

func TestEveryFilterHasOneCondition(t *testing.T) {
	t.Parallel()
	var names []string
	for _, field := range dlq.FilterFields {
		names = append(names, field.Name)
		c, found := filterConditions[field.Name]
		require.True(t, found, field.Name)
		require.NotContains(t, names[:len(names)-1], field.Name)
		if field.Is(dlq.Negatable) {
			for _, sql := range []string{c.message, c.body} {
				require.Equal(t, strings.Count(sql, "@"), strings.Count(sql, "@"+field.Name), "a prefix tells its parameters apart")
			}
			require.NotEmpty(t, c.message+c.body, field.Name)
		}
	}
	require.Len(t, filterConditions, len(names))
}

func of(name, value string) dlq.Header { return dlq.Header{Key: name, Value: []byte(value)} }

func failed(change func(*dlq.Failure)) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { change(&a.Failure) }
}

// negatable are three messages. The first has every value that can be excluded, the second has
// other values, and the third has neither values nor a key.
func negatable(t *testing.T, s *Store) (ids []dlq.ID) {
	t.Helper()
	arrivals := []dlq.Arrival{
		dlqtest.Arrival(dlqtest.Cause("one"), dlqtest.Key("a"), dlqtest.Error("no price for 42% of it"), dlqtest.Payload(`{"lines": [{"sku": "x"}]}`),
			dlqtest.Headers(of("tenant", "b"), of("tenant", "acme"), of("empty", "")), failed(func(f *dlq.Failure) {
				f.ErrorClass, f.CauseClass, f.Origin.ConsumerGroup = "org.example.Late", "org.example.Missing", "billing"
				f.Origin.Partition, f.Origin.Offset, f.TraceID, f.CorrelationID = new(int32(3)), new(int64(7)), "4bf92f", "c-1"
			})),
		dlqtest.Arrival(dlqtest.Cause("another"), dlqtest.Key("b"), dlqtest.Error("no stock"), dlqtest.Payload(`{"lines": "x"}`), dlqtest.Headers(of("tenant", "b"), of("acme", "tenant")),
			failed(func(f *dlq.Failure) {
				f.ErrorClass, f.CauseClass, f.Origin.ConsumerGroup = "org.example.Later", "Lat", "billing-2"
				f.Origin.Partition, f.Origin.Offset, f.TraceID, f.CorrelationID = new(int32(4)), new(int64(8)), "4BF92F", "c-2"
			})),
		dlqtest.Arrival(func(a *dlq.Arrival) { a.Record.Key, a.Record.Value, a.Record.Headers, a.Payload = nil, nil, nil, nil }, dlqtest.Error("")),
	}
	_, err := s.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	for _, a := range arrivals {
		ids = append(ids, a.ID)
	}
	return ids
}

// keep lists messages by a filter, and returns their places in ids.
func keep(t *testing.T, s *Store, ids []dlq.ID, f dlq.Filter) (places []int) {
	t.Helper()
	f.Topic = "orders"
	page, err := s.List(t.Context(), dlq.ListQuery{Filter: f, PageSize: 200})
	require.NoError(t, err)
	require.False(t, page.HasNext)
	for i := range page.Messages {
		places = append(places, slices.Index(ids, page.Messages[i].ID))
	}
	slices.Sort(places)
	return places
}

// requireKept checks that everything that uses a filter finds the messages in places.
func requireKept(t *testing.T, s *Store, ids []dlq.ID, f dlq.Filter, places []int, name string) {
	t.Helper()
	require.Equal(t, places, keep(t, s, ids, f), name)
	ofIDs := f
	ofIDs.IDs = ids
	require.Equal(t, places, keep(t, s, ids, ofIDs), name)

	f.Topic = "orders"
	preview, err := s.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: f})
	require.NoError(t, err, name)
	require.EqualValues(t, len(places), preview.Matched, name)
	require.Len(t, preview.Sample, min(len(places), dlq.PreviewSample), name)
	action, err := s.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindDelete, Filter: f})
	require.NoError(t, err, name)
	require.EqualValues(t, len(places), action.Matched, name)
	require.Len(t, action.Sample, min(len(places), dlq.PreviewSample), name)

	job, err := s.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDelete, f))
	require.NoError(t, err, name)
	job, err = s.CountJob(t.Context(), job.ID)
	require.NoError(t, err, name)
	require.EqualValues(t, len(places), job.Matched, name)
	require.True(t, job.Spec.IsSameWork(dlq.JobSpec{Kind: dlq.KindDelete, Filter: f}), name)
	_, err = s.EndJob(t.Context(), nil, job.ID, dlq.JobCancelled, "")
	require.NoError(t, err, name)

	bulk, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1, dlqtest.Filter(f)))
	require.NoError(t, err, name)
	bulk, err = s.CountJob(t.Context(), bulk.ID)
	require.NoError(t, err, name)
	require.EqualValues(t, len(places), bulk.Matched, name)
	lane, err := s.OpenLane(t.Context(), bulk.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err, name)
	for range 2 { // the second time, the messages come from a queue
		claim, _, err := s.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err, name)
		var claimed []int
		for _, e := range claim.Page {
			claimed = append(claimed, slices.Index(ids, e.ID))
		}
		slices.Sort(claimed)
		if claim.Queue == nil {
			require.Equal(t, places, claimed, name)
		}
		require.Subset(t, places, claimed, name)
		_, err = s.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultWaiting))
		require.NoError(t, err, name)
	}
	_, err = s.EndJob(t.Context(), nil, bulk.ID, dlq.JobCancelled, "")
	require.NoError(t, err, name)
}

func TestEveryNegationExcludesAValueAndKeepsMessagesWithoutIt(t *testing.T) {
	t.Parallel()
	s := New(dbtest.New(t), dlqtest.Topics(t))
	ids := negatable(t, s)
	first, err := s.Message(t.Context(), ids[0])
	require.NoError(t, err)
	others := []int{1, 2}
	long := strings.Repeat("a", 1<<20)
	tests := map[string]struct {
		not  dlq.Filter
		want []int
	}{
		"error":                     {dlq.Filter{ErrorContains: "NO PRICE"}, others},
		"error, not ASCII":          {dlq.Filter{ErrorContains: "é"}, []int{0, 1, 2}},
		"error, wildcards":          {dlq.Filter{ErrorContains: "2%"}, others},
		"error, only wildcards":     {dlq.Filter{ErrorContains: "_%"}, []int{0, 1, 2}},
		"error, hostile":            {dlq.Filter{ErrorContains: "\x00\xff' --"}, []int{0, 1, 2}},
		"error, long":               {dlq.Filter{ErrorContains: long}, []int{0, 1, 2}},
		"key":                       {dlq.Filter{Key: []byte("a")}, others},
		"key, hostile":              {dlq.Filter{Key: []byte("a\x00\xff%")}, []int{0, 1, 2}},
		"key, long":                 {dlq.Filter{Key: []byte(long)}, []int{0, 1, 2}},
		"group":                     {dlq.Filter{Group: first.GroupID}, others},
		"class":                     {dlq.Filter{Class: "Late"}, others},
		"class of the cause":        {dlq.Filter{Class: "Missing"}, others},
		"class, wildcards":          {dlq.Filter{Class: "Lat_"}, []int{0, 1, 2}},
		"consumer_group":            {dlq.Filter{ConsumerGroup: "billing"}, others},
		"origin_partition":          {dlq.Filter{OriginPartition: new(int32(3))}, others},
		"origin_offset":             {dlq.Filter{OriginOffset: new(int64(7))}, others},
		"trace_id":                  {dlq.Filter{TraceID: "4bf92f"}, others},
		"correlation_id":            {dlq.Filter{CorrelationID: "c-1"}, others},
		"headers":                   {dlq.Filter{Headers: map[string]string{"tenant": "acme"}}, others},
		"headers, in two messages":  {dlq.Filter{Headers: map[string]string{"tenant": "b"}}, []int{2}},
		"headers, value as name":    {dlq.Filter{Headers: map[string]string{"acme": "tenant"}}, []int{0, 2}},
		"payload":                   {dlq.Filter{Payload: map[string]string{"lines.0.sku": "x"}}, others},
		"payload, another type":     {dlq.Filter{Payload: map[string]string{"lines": "x"}}, []int{0, 2}},
		"payload, hostile":          {dlq.Filter{Payload: map[string]string{"a\x00.{,}\"'.9": "\xff"}}, []int{0, 1, 2}},
		"a filter without a field":  {dlq.Filter{}, nil},
		"two fields of one message": {dlq.Filter{Key: []byte("b"), TraceID: "4bf92f"}, []int{0, 1, 2}},
	}
	for _, field := range dlq.FilterFields {
		if field.Is(dlq.Negatable) {
			require.Contains(t, tests, field.Name)
		}
	}
	for name, test := range tests {
		requireKept(t, s, ids, dlq.Filter{Not: []dlq.Filter{test.not}}, test.want, name)
	}
	requireKept(t, s, ids, dlq.Filter{Not: []dlq.Filter{{Key: []byte("a")}, {Class: "Later"}}}, []int{2}, "two negations")
	requireKept(t, s, ids, dlq.Filter{Key: []byte("a"), Not: []dlq.Filter{{TraceID: "4BF92F"}, {Key: []byte("b")}}}, []int{0}, "key and negations")
	requireKept(t, s, ids, dlq.Filter{TraceID: "4bf92f", Not: []dlq.Filter{{Key: []byte("a")}}}, nil, "trace id and its key")

	job, err := s.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "orders"}))
	require.NoError(t, err)
	_, err = s.CountJob(t.Context(), job.ID)
	require.NoError(t, err)
	for step := (dlq.ChangeStep{}); !step.Done; {
		step, err = s.Act(t.Context(), job, dlq.ChangeBatch)
		require.NoError(t, err)
	}
	archived, err := s.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 100)
	require.NoError(t, err)
	require.EqualValues(t, 3, archived)
	for name, test := range tests {
		require.Equal(t, test.want, keep(t, s, ids, dlq.Filter{Archived: true, Not: []dlq.Filter{test.not}}), "archived, %s", name)
	}
}

// A random job deletes the messages that its filter matches, except the messages that a negation matches.
func TestANegationExcludesWhatTheSameFilterFinds(t *testing.T) {
	t.Parallel()
	s := New(dbtest.New(t), dlqtest.Topics(t))
	r := dlqtest.NewRandom(dlqtest.Seed(t))
	word := func() string { return []string{"", "a", "b", "A", "%", "_", "a.b", "é", `\`, "'"}[r.IntN(10)] }
	var arrivals []dlq.Arrival
	for range 60 {
		arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Key(word()), dlqtest.Error(word()+word()), dlqtest.Headers(of("h", word()), of("h", word())),
			dlqtest.Payload(fmt.Sprintf(`{"p": %q}`, strings.Trim(word(), `\`))), failed(func(f *dlq.Failure) {
				f.ErrorClass, f.CauseClass, f.Origin.ConsumerGroup, f.TraceID, f.CorrelationID = word(), word(), word(), word(), word()
				f.Origin.Partition, f.Origin.Offset = new(r.Int32N(2)), new(r.Int64N(2))
			}), func(a *dlq.Arrival) {
				if r.IntN(3) == 0 {
					a.Record.Key, a.Record.Headers, a.Payload, a.Origin.Partition = nil, nil, nil, nil
				}
			}))
	}
	_, err := s.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	var ids []dlq.ID
	for _, a := range arrivals {
		ids = append(ids, a.ID)
	}
	single := func() (f dlq.Filter) {
		for _, field := range slices.Concat(dlq.FilterFields, dlq.FilterFields)[r.IntN(len(dlq.FilterFields)):] {
			switch value := field.At(&f).(type) {
			case *string:
				*value = word()
			case *[]byte:
				*value = []byte(word())
			case **int32:
				*value = new(r.Int32N(2))
			case **int64:
				*value = new(r.Int64N(2))
			case *map[string]string:
				*value = map[string]string{field.Name[:1]: word()}
			}
			if field.Is(dlq.Negatable) && len(f.Given()) > 0 {
				return f
			}
			f = dlq.Filter{}
		}
		return f
	}
	for range 100 {
		f := single()
		if r.IntN(2) == 0 {
			f = dlq.Filter{}
		}
		want := keep(t, s, ids, f)
		for range 1 + r.IntN(4) {
			not := single()
			matched := keep(t, s, ids, not)
			f.Not = append(f.Not, not)
			want = slices.DeleteFunc(want, func(place int) bool { return slices.Contains(matched, place) })
		}
		if len(want) == 0 {
			want = nil
		}
		require.Equal(t, want, keep(t, s, ids, f), "%+v", f)
		if r.IntN(10) == 0 {
			requireKept(t, s, ids, f, want, fmt.Sprintf("%+v", f))
		}
	}
	f := dlq.Filter{Topic: "orders", Not: []dlq.Filter{{Key: []byte("a")}, single(), {ErrorContains: "b"}}}
	deleted := keep(t, s, ids, f)
	job, err := s.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDelete, f))
	require.NoError(t, err)
	_, err = s.CountJob(t.Context(), job.ID)
	require.NoError(t, err)
	for step := (dlq.ChangeStep{}); !step.Done; {
		step, err = s.Act(t.Context(), job, 7)
		require.NoError(t, err)
	}
	left := slices.DeleteFunc(keep(t, s, ids, dlq.Filter{}), func(place int) bool { return slices.Contains(deleted, place) })
	require.Len(t, left, len(ids)-len(deleted))
	require.Empty(t, keep(t, s, ids, f))
}
