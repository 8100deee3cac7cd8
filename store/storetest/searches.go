package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// failure changes the facts about the failure, which come from the headers of a dead letter.
func failure(change func(*dlq.Failure)) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { change(&a.Failure) }
}

func header(name, value string) dlq.Header { return dlq.Header{Key: name, Value: []byte(value)} }

var long = strings.Repeat("Zürich 0815 ", 1000)

// searchable are messages that differ in everything that can be searched. Two of them are in
// no group.
func (f fixture) searchable() []dlq.Message {
	first := []func(*dlq.Arrival){
		noPrice, dlqtest.Error("no price for 42% of order_7"),
		dlqtest.Payload(`{"order": {"lines": [{"sku": "x"}, {"sku": "y z"}]}, "total": 12.50, "paid": true, "note": null}`),
		dlqtest.Headers(header("tenant", "a"), header("tenant", "b"), header("empty", ""), dlq.Header{Key: "null"}),
		failure(func(f *dlq.Failure) {
			f.ErrorClass, f.CauseClass, f.Origin.ConsumerGroup = "org.example.TimeoutException", `App\Models\Missing`, "billing"
			f.Origin.Partition, f.Origin.Offset, f.TraceID, f.CorrelationID = new(int32(3)), new(int64(7)), "4bf92f", "c-1"
		}),
	}
	return f.store(
		dlqtest.Arrival(first...),
		dlqtest.Arrival(noStock, dlqtest.Error("kein Lager in Zürich"),
			dlqtest.Payload(`{"total": 1e3, "": {"": "empty"}, "a.b": 1, "small": 1.20e-3, "zero": -0.0}`),
			dlqtest.Headers(header("tenant", "ä%_'"), header("other", "\x0ctenant\x02a")),
			failure(func(f *dlq.Failure) {
				f.ErrorClass, f.Origin.ConsumerGroup, f.Suspicion = "shop::PriceError", "billing-2", "odd"
				f.Origin.Partition, f.Origin.Offset, f.TraceID, f.CorrelationID = new(int32(3)), new(int64(8)), "4BF92F", "c-2"
			})),
		dlqtest.Arrival(dlqtest.Error("no price"), dlqtest.Payload(`["x", ["y"]]`), failure(func(f *dlq.Failure) {
			f.ErrorClass, f.Origin.Partition, f.Origin.Offset = "TimeoutException", new(int32(4)), new(int64(7))
		})),
		dlqtest.Arrival(noStock, dlqtest.Error(long), dlqtest.Payload(`"x"`), dlqtest.Headers(header("tenant", long)), failure(func(f *dlq.Failure) {
			f.CauseClass, f.TraceID, f.CorrelationID, f.Origin.ConsumerGroup = "github.com/shop/price/PriceError", long, long, long
		})),
		dlqtest.Arrival(dlqtest.Error("")),
		dlqtest.Arrival(append(slices.Clone(first), dlqtest.Topic("elsewhere"))...))[:5]
}

// searchCases have filters, and the indexes of the messages of searchable that each filter finds.
var searchCases = map[string]struct {
	filter dlq.Filter
	want   []int
}{
	"error":                          {dlq.Filter{ErrorContains: "NO PRICE"}, []int{0, 2}},
	"error, with another number":     {dlq.Filter{ErrorContains: "order_8"}, nil},
	"error, wildcards":               {dlq.Filter{ErrorContains: "2% of order_"}, []int{0}},
	"error, two characters":          {dlq.Filter{ErrorContains: "42"}, []int{0}},
	"error, not ASCII":               {dlq.Filter{ErrorContains: "züRICH"}, []int{1, 3}},
	"error, long":                    {dlq.Filter{ErrorContains: strings.Repeat("Zürich 0815 ", 900)}, []int{3}},
	"error, hostile":                 {dlq.Filter{ErrorContains: "\x00\xff' --"}, nil},
	"error that nobody has":          {dlq.Filter{ErrorContains: "no such text"}, nil},
	"class":                          {dlq.Filter{Class: "org.example.TimeoutException"}, []int{0}},
	"class, last part":               {dlq.Filter{Class: "TimeoutException"}, []int{0, 2}},
	"class, last part of the cause":  {dlq.Filter{Class: "Missing"}, []int{0}},
	"class of the cause":             {dlq.Filter{Class: `App\Models\Missing`}, []int{0}},
	"class, other namespaces":        {dlq.Filter{Class: "PriceError"}, []int{1, 3}},
	"class, part of a name":          {dlq.Filter{Class: "Exception"}, nil},
	"class, part of a namespace":     {dlq.Filter{Class: "example.TimeoutException"}, nil},
	"class, case":                    {dlq.Filter{Class: "timeoutexception"}, nil},
	"class, wildcards":               {dlq.Filter{Class: "Time%"}, nil},
	"class, hostile":                 {dlq.Filter{Class: "\\"}, nil},
	"consumer group":                 {dlq.Filter{ConsumerGroup: "billing"}, []int{0}},
	"consumer group, long":           {dlq.Filter{ConsumerGroup: long}, []int{3}},
	"origin partition":               {dlq.Filter{OriginPartition: new(int32(3))}, []int{0, 1}},
	"origin offset":                  {dlq.Filter{OriginOffset: new(int64(7))}, []int{0, 2}},
	"origin":                         {dlq.Filter{OriginPartition: new(int32(3)), OriginOffset: new(int64(7))}, []int{0}},
	"origin that nobody has":         {dlq.Filter{OriginPartition: new(int32(0)), OriginOffset: new(int64(0))}, nil},
	"trace id":                       {dlq.Filter{TraceID: "4bf92f"}, []int{0}},
	"trace id, long":                 {dlq.Filter{TraceID: long}, []int{3}},
	"correlation id":                 {dlq.Filter{CorrelationID: "c-2"}, []int{1}},
	"correlation id, long":           {dlq.Filter{CorrelationID: long}, []int{3}},
	"suspicious":                     {dlq.Filter{Suspicious: new(true)}, []int{1}},
	"not suspicious":                 {dlq.Filter{Suspicious: new(false)}, []int{0, 2, 3, 4}},
	"header":                         {dlq.Filter{Headers: map[string]string{"tenant": "b"}}, []int{0}},
	"header, not ASCII":              {dlq.Filter{Headers: map[string]string{"tenant": "ä%_'"}}, []int{1}},
	"header, part of another":        {dlq.Filter{Headers: map[string]string{"tenant": "a"}}, []int{0}},
	"header, long":                   {dlq.Filter{Headers: map[string]string{"tenant": long}}, []int{3}},
	"header, empty":                  {dlq.Filter{Headers: map[string]string{"empty": ""}}, []int{0}},
	"header, null":                   {dlq.Filter{Headers: map[string]string{"null": ""}}, nil},
	"headers":                        {dlq.Filter{Headers: map[string]string{"tenant": "a", "empty": ""}}, []int{0}},
	"header, name as value":          {dlq.Filter{Headers: map[string]string{"a": "tenant"}}, nil},
	"payload":                        {dlq.Filter{Payload: map[string]string{"order.lines.1.sku": "y z"}}, []int{0}},
	"payload, from the end":          {dlq.Filter{Payload: map[string]string{"order.lines.-1.sku": "y z"}}, []int{0}},
	"payload, beyond the end":        {dlq.Filter{Payload: map[string]string{"order.lines.2.sku": "y z"}}, nil},
	"payload, number":                {dlq.Filter{Payload: map[string]string{"total": "12.50"}}, []int{0}},
	"payload, number with exponent":  {dlq.Filter{Payload: map[string]string{"total": "1000"}}, []int{1}},
	"payload, small number":          {dlq.Filter{Payload: map[string]string{"small": "0.00120"}}, []int{1}},
	"payload, zero":                  {dlq.Filter{Payload: map[string]string{"zero": "0.0"}}, []int{1}},
	"payload, flag":                  {dlq.Filter{Payload: map[string]string{"paid": "true"}}, []int{0}},
	"payload, null":                  {dlq.Filter{Payload: map[string]string{"note": "null"}}, nil},
	"payload, object":                {dlq.Filter{Payload: map[string]string{"order.lines.0": `{"sku": "x"}`}}, nil},
	"payload, array":                 {dlq.Filter{Payload: map[string]string{"1.0": "y"}}, []int{2}},
	"payload, empty names":           {dlq.Filter{Payload: map[string]string{".": "empty"}}, []int{1}},
	"payload, hostile":               {dlq.Filter{Payload: map[string]string{"a\x00.{,}\"'.99999999999999999999": "\xff"}}, nil},
	"payload and header":             {dlq.Filter{Headers: map[string]string{"tenant": "a"}, Payload: map[string]string{"total": "12.50"}}, []int{0}},
	"error and class":                {dlq.Filter{ErrorContains: "price", Class: "TimeoutException"}, []int{0, 2}},
	"error and consumer group":       {dlq.Filter{ErrorContains: "price", ConsumerGroup: "billing"}, []int{0}},
	"error, not ASCII, and class":    {dlq.Filter{ErrorContains: "zürich", Class: "PriceError"}, []int{1, 3}},
	"class and suspicious":           {dlq.Filter{Class: "PriceError", Suspicious: new(true)}, []int{1}},
	"origin and trace id":            {dlq.Filter{OriginOffset: new(int64(7)), TraceID: "4bf92f"}, []int{0}},
	"trace id and header":            {dlq.Filter{TraceID: "4bf92f", Headers: map[string]string{"tenant": "a"}}, []int{0}},
	"trace id and another header":    {dlq.Filter{TraceID: "4bf92f", Headers: map[string]string{"tenant": "c"}}, nil},
	"trace id and key":               {dlq.Filter{TraceID: "4bf92f", Key: []byte("none")}, nil},
	"error and header":               {dlq.Filter{ErrorContains: "order_7", Headers: map[string]string{"tenant": "a"}}, []int{0}},
	"origin partition and payload":   {dlq.Filter{OriginPartition: new(int32(3)), Payload: map[string]string{"total": "1000"}}, []int{1}},
	"consumer group and correlation": {dlq.Filter{ConsumerGroup: "billing", CorrelationID: "c-2"}, nil},
}

var searches = map[string]func(*testing.T, fixture){
	"a search finds the same messages in lists, plans and jobs": func(t *testing.T, f fixture) {
		stored := f.searchable()
		for name, test := range searchCases {
			filter := test.filter
			filter.Topic = "orders"
			places := func(messages []dlq.Message) (places []int) {
				for _, id := range ids(messages) {
					places = append(places, slices.Index(ids(stored), id))
				}
				slices.Sort(places)
				return places
			}
			page := f.list(dlq.ListQuery{Filter: filter, PageSize: 10})
			require.Equal(t, test.want, places(page.Messages), name)
			require.EqualValues(t, len(test.want), page.Total, name)
			require.True(t, page.TotalExact, name)
			require.False(t, page.HasNext, name)

			filter.IDs = ids(stored)
			require.Equal(t, test.want, places(f.list(dlq.ListQuery{Filter: filter, PageSize: 10}).Messages), "%s, of ids", name)
			filter.IDs = nil

			preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: filter, IncludeSuspicious: true})
			require.NoError(t, err, name)
			require.EqualValues(t, len(test.want), preview.Matched, name)
			require.Equal(t, test.want, places(preview.Sample), name)
			action, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindDead, Filter: filter})
			require.NoError(t, err, name)
			require.EqualValues(t, len(test.want), action.Matched, name)
			require.Equal(t, test.want, places(action.Sample), name)

			bulk := f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Filter(filter), func(s *dlq.JobSpec) { s.IncludeSuspicious = true }))
			require.EqualValues(t, len(test.want), bulk.Matched, name)
			asked := dlq.JobSpec{Kind: dlq.KindRetry, Filter: filter, IncludeSuspicious: true}
			require.True(t, bulk.Spec.IsSameWork(asked), "%s is stored as %+v", name, bulk.Spec)
			var claimed []int
			for _, e := range f.claimPage(dlqtest.Lane(bulk, 0)) {
				claimed = append(claimed, slices.Index(ids(stored), e.ID))
			}
			require.Equal(t, test.want, claimed, name)
			f.end(bulk.ID, dlq.JobCancelled)
			_, err = f.Release(t.Context(), bulk.Owner(), "")
			require.NoError(t, err)
		}
	},

	"an action changes the messages that it finds": func(t *testing.T, f fixture) {
		for name, test := range searchCases {
			stored := f.searchable()
			filter := test.filter
			filter.Topic, filter.CreatedFrom = "orders", stored[0].CreatedAt
			require.EqualValues(t, len(test.want), f.act(dlq.KindDead, filter).Counts.Changed, name)
			f.act(dlq.KindDelete, dlq.Filter{Topic: "orders"})
			f.act(dlq.KindDelete, dlq.Filter{Topic: "elsewhere"})
		}
	},

	"a search of records says how far it looked, and goes on from there": func(t *testing.T, f fixture) {
		arrivals := dlqtest.Arrivals(30)
		for _, i := range []int{3, 4, 20} {
			arrivals[i].Record.Headers = []dlq.Header{header("tenant", "a")}
		}
		stored := f.store(arrivals...)
		q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Headers: map[string]string{"tenant": "a"}}, PageSize: 10, SearchLimit: 12}
		pages := [][]dlq.ID{{stored[20].ID}, {}, {stored[4].ID, stored[3].ID}}
		for i, want := range pages {
			page := f.list(q)
			require.Equal(t, want, ids(page.Messages))
			require.EqualValues(t, len(want), page.Total)
			require.False(t, page.TotalExact)
			require.Equal(t, i < 2, page.HasNext)
			require.Equal(t, i == 2, page.Searched.IsComplete)
			require.Equal(t, []int{12, 12, 6}[i], page.Searched.Messages)
			q.After = page.Searched.Last
		}

		q.After, q.PageSize, q.OldestFirst = nil, 1, true
		for _, want := range []int{3, 4} {
			page := f.list(q)
			require.Equal(t, []dlq.ID{stored[want].ID}, ids(page.Messages))
			require.Equal(t, stored[want].Keyset(), *page.Searched.Last, "a full page ends the search")
			require.True(t, page.HasNext)
			q.After = page.Searched.Last
		}
	},

	"a search of records looks at a limited number of messages, whatever the other filters are": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(30)...)
		for name, filter := range map[string]dlq.Filter{
			"error": {ErrorContains: "that nobody has"}, "class": {Class: "nobodys.Class"}, "consumer group": {ConsumerGroup: "nobody"},
			"group": {Group: dlq.NewID()}, "suspicious": {Suspicious: new(true)}, "origin": {OriginPartition: new(int32(99))},
		} {
			filter.Topic, filter.Headers = "orders", map[string]string{"tenant": "a"}
			page := f.list(dlq.ListQuery{Filter: filter, PageSize: 5, SearchLimit: 10})
			require.Empty(t, page.Messages, name)
			require.Equal(t, 10, page.Searched.Messages, name)
			require.True(t, page.HasNext, name)
		}
	},

	"a search of records has other filters too": func(t *testing.T, f fixture) {
		stored := f.searchable()
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", ErrorContains: "no price", Headers: map[string]string{"tenant": "a"}}, PageSize: 5})
		require.Equal(t, stored[:1], page.Messages)
		page = f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", TraceID: "4bf92f", Headers: map[string]string{"tenant": "a"}}, PageSize: 5})
		require.Nil(t, page.Searched)
	},

	"searches find RETRYING messages": func(t *testing.T, f fixture) {
		stored := f.searchable()
		f.claim(stored[0].ID)
		for name, test := range searchCases {
			filter := test.filter
			filter.Topic, filter.Statuses = "orders", []dlq.Status{dlq.StatusRetrying}
			page := f.list(dlq.ListQuery{Filter: filter, PageSize: 10})
			require.Equal(t, slices.Contains(test.want, 0), len(page.Messages) == 1, name)
		}
	},

	"searches have pages": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(7, noPrice, failure(func(f *dlq.Failure) { f.TraceID, f.ErrorClass, f.Suspicion = "t", "shop.Late", "odd" }))...)
		f.store(dlqtest.Arrivals(3, noStock)...)
		for name, filter := range map[string]dlq.Filter{
			"class": {Class: "Late"}, "trace id": {TraceID: "t"}, "suspicious": {Suspicious: new(true)},
			"class, of a status": {Class: "Late", Statuses: []dlq.Status{dlq.StatusPending}},
		} {
			filter.Topic = "orders"
			for _, oldestFirst := range []bool{false, true} {
				want := ids(stored)
				if !oldestFirst {
					slices.Reverse(want)
				}
				var found []dlq.ID
				q := dlq.ListQuery{Filter: filter, PageSize: 3, OldestFirst: oldestFirst}
				for page := f.list(q); ; page = f.list(q) {
					require.EqualValues(t, 7, page.Total, name)
					found = append(found, ids(page.Messages)...)
					if !page.HasNext {
						break
					}
					after := page.Messages[2].Keyset()
					q.After = &after
				}
				require.Equal(t, want, found, name)
			}
		}
	},
}
