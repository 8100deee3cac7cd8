package config

// Links are the URLs of other programs that show more about a message. The API's answers and the console's pages link to these
// URLs.
type Links struct {
	// TraceURL is the URL of a trace, such as https://tempo.example/trace/{trace_id}; see dlq.TraceLink.
	TraceURL string `yaml:"trace_url" check:"trace link"`
	// KafkaURL is the URL of a record in a web interface of Kafka, such as
	// https://kafka.example/topics/{topic}?p={partition}&o={offset}; see dlq.RecordLink.
	KafkaURL string `yaml:"kafka_url" check:"record link"`
}
