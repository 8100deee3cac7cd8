package demo

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReportShowsOneDeadLetterOfEachFamily(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/api/v1/dlq/" + orders.dlq:    `{"messages":[{"id":"1"},{"id":"2"},{"id":"3"}]}`,
		"/api/v1/dlq/" + payments.dlq:  `{"messages":[]}`,
		"/api/v1/dlq/" + shipments.dlq: `{"messages":[]}`,
		"/api/v1/dlq/messages/1": `{"id":"1","error_message":"boom","error_class":"a.b.Outer","cause_class":"a.Inner",
			"origin":{"topic":"orders","partition":2,"offset":7,"family":"spring-kafka","consumer_group":"shop"}}`,
		"/api/v1/dlq/messages/2": `{"id":"2","error_message":"lost","origin":{"topic":"orders","family":"watermill"}}`,
		"/api/v1/dlq/messages/3": `{"id":"3","error_message":"no","origin":{"topic":"orders","family":"kafka-share-group"},"pointed":{"value":{"size":9}}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(answers[r.URL.Path])) }))
	t.Cleanup(server.Close)
	var out output
	s := &shop{out: printer{&out}, dead: map[string]int{orders.dlq: 3}}
	s.printReport(t.Context(), &Options{BaseURL: server.URL})
	require.Equal(t, `
How the manager reads them, one of each family:
  kafka-share-group       orders
                          no
                          points to its record, of 9 bytes
  spring-kafka            orders[2] at 7, group shop
                          Outer: Inner: boom
  watermill               orders
                          lost
`, out.String())
}
