//go:build apicurio

package registry_test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/registry"
)

// apicurioVersion runs on Java 17, keeps its schemas in memory, and speaks Confluent's API.
const apicurioVersion = "2.6.13.Final"

// startApicurio returns the URL of Confluent's API. Maven downloads the registry on the first run.
func startApicurio(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			require.NotEqual(t, "true", os.Getenv("CI"), "%s is not in PATH", tool)
			t.Skipf("SKIPPED: %s is not in PATH", tool)
		}
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack",
		"-Dartifact=io.apicurio:apicurio-registry-app:"+apicurioVersion+":tar.gz:all", "-DoutputDirectory="+dir)
	unpack.Dir = dir // Maven writes marker files into its working directory
	output, err := unpack.CombinedOutput()
	require.NoError(t, err, "%s", output)

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	var log bytes.Buffer
	command := exec.CommandContext(t.Context(), "java", "-Xms64m", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port="+port, "-jar", filepath.Join(dir, "apicurio-registry-app-"+apicurioVersion+"-runner.jar"))
	command.Dir, command.Stdout, command.Stderr = dir, &log, &log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("Apicurio said:\n%s", log.String())
		}
	})
	address := "http://127.0.0.1:" + port + "/apis/ccompat/v7"
	require.Eventually(t, func() bool {
		response, err := http.Get(address + "/subjects")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 2*time.Minute, 100*time.Millisecond)
	return address
}

// apicurio is a decoder with a real registry.
type apicurio struct {
	*testing.T
	client  *sr.Client
	decoder *registry.Decoder
}

// register registers a schema and returns its id. It requires that the schema becomes this version of the
// subject.
func (r apicurio) register(subject string, version int, format sr.SchemaType, text string, references ...sr.SchemaReference) uint32 {
	r.Helper()
	created, err := r.client.CreateSchema(r.Context(), subject, sr.Schema{Schema: text, Type: format, References: references})
	require.NoError(r, err)
	require.Equal(r, version, created.Version)
	return uint32(created.ID)
}

func (r apicurio) requireJSON(want string, value []byte) dlq.Schema {
	r.Helper()
	decoded, err := r.decoder.Decode(r.Context(), "orders", false, value)
	require.NoError(r, err)
	require.JSONEq(r, want, string(decoded.JSON))
	return decoded.Schema
}

func TestARealRegistry(t *testing.T) {
	t.Parallel()
	address := startApicurio(t)
	client, err := sr.NewClient(sr.URLs(address))
	require.NoError(t, err)
	decoder, err := registry.New(registry.Options{URLs: []string{address}, Timeout: 10 * time.Second}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	on := func(t *testing.T) apicurio { return apicurio{t, client, decoder} }

	t.Run("Protobuf with references and message indexes", func(t *testing.T) {
		t.Parallel()
		r := on(t)
		r.register("metadata", 1, sr.TypeProtobuf, schemaFile(t, "event_metadata.proto"))
		id := r.register("orders-value", 1, sr.TypeProtobuf, schemaFile(t, "order_events.proto"),
			sr.SchemaReference{Name: "k1s0/system/common/v1/event_metadata.proto", Subject: "metadata", Version: 1})
		schema := r.requireJSON(`{"metadata": {"traceId": "t"}, "orderId": "o-1"}`, first(id, 1, message(5, "t"), 2, "o-1"))
		require.Equal(t, dlq.Schema{Format: "PROTOBUF", ID: id, Subject: "orders-value", Version: 1, MessageType: "k1s0.event.service.order.v1.OrderCreatedEvent"}, schema)
		schema = r.requireJSON(`{"productId": "p-1", "quantity": 2}`, wire(id, append([]byte{2, 2}, message(1, "p-1", 2, 2)...)...))
		require.Equal(t, "k1s0.event.service.order.v1.OrderItem", schema.MessageType)
	})

	t.Run("Protobuf with well-known types and nested messages", func(t *testing.T) {
		t.Parallel()
		r := on(t)
		id := r.register("nested", 1, sr.TypeProtobuf, `syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
			message Outer { map<string, int32> counts = 1; message Inner { google.protobuf.Timestamp at = 1; } }`)
		r.requireJSON(`{"at": "2026-02-20T10:30:00Z"}`, wire(id, append([]byte{4, 0, 0}, message(1, message(1, 1_771_583_400))...)...))
	})

	t.Run("Avro with references", func(t *testing.T) {
		t.Parallel()
		r := on(t)
		const country = `{"type": "enum", "name": "Country", "namespace": "geo", "symbols": ["JP", "DE"]}`
		r.register("country", 1, sr.TypeAvro, country)
		id := r.register("addresses-value", 1, sr.TypeAvro, `{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "country", "type": "geo.Country"}]}`,
			sr.SchemaReference{Name: "geo.Country", Subject: "country", Version: 1})
		schema := r.requireJSON(`{"country": "DE"}`, wire(id, 2))
		require.Equal(t, dlq.Schema{Format: "AVRO", ID: id, Subject: "addresses-value", Version: 1, MessageType: "shop.Address"}, schema)
	})

	t.Run("a subject whose newest version does not read the value", func(t *testing.T) {
		t.Parallel()
		r := on(t)
		const v1 = `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}`
		const v2 = `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}`
		first, second := r.register("evolved", 1, sr.TypeAvro, v1), r.register("evolved", 2, sr.TypeAvro, v2)
		content, err := avro.MustParse(v1).Encode(map[string]any{"id": "o-1"})
		require.NoError(t, err)
		require.Error(t, avro.CheckCompatibility(avro.MustParse(v1), avro.MustParse(v2)))
		require.Equal(t, 1, r.requireJSON(`{"id": "o-1"}`, wire(first, content...)).Version)
		_, err = r.decoder.Decode(t.Context(), "orders", false, wire(second, content...))
		require.ErrorContains(t, err, "was not written with its schema")
	})

	t.Run("JSON Schema", func(t *testing.T) {
		t.Parallel()
		r := on(t)
		id := r.register("json", 1, sr.TypeJSON, `{"type": "object", "properties": {"a": {"type": "integer"}}}`)
		require.Equal(t, "JSON", r.requireJSON(`{"a": 1}`, wire(id, []byte(`{"a": 1}`)...)).Format)
	})

	t.Run("tags", func(t *testing.T) {
		t.Parallel()
		r := on(t)
		for format, schema := range map[sr.SchemaType]string{
			sr.TypeAvro:     `{"type": "record", "name": "A", "fields": [{"name": "a", "type": "string", "confluent:tags": ["PII"]}]}`,
			sr.TypeJSON:     `{"type": "object", "properties": {"a": {"type": "string", "confluent:tags": ["PII"]}}}`,
			sr.TypeProtobuf: `syntax = "proto3"; import "confluent/meta.proto"; message A { string a = 1 [(confluent.field_meta).tags = "PII"]; }`,
		} {
			var references []sr.SchemaReference
			if format == sr.TypeProtobuf { // Apicurio does not know Confluent's meta.proto
				r.register("meta", 1, format, `syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
					message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
					extend google.protobuf.FieldOptions { Meta field_meta = 1088; }`)
				references = []sr.SchemaReference{{Name: "confluent/meta.proto", Subject: "meta", Version: 1}}
			}
			paths, err := decoder.Tagged(t.Context(), wire(r.register("tags-"+format.String(), 1, format, schema, references...), 0), []string{"PII"})
			require.NoError(t, err, format)
			require.Len(t, paths, 1, format)
			require.Equal(t, "a", paths[0].String())
		}
	})

	t.Run("an unknown id", func(t *testing.T) {
		t.Parallel()
		_, err := decoder.Decode(t.Context(), "orders", false, wire(4711))
		require.ErrorContains(t, err, "the schema registry has no schema with the id 4711")
	})
}
