package config

// Links are the addresses of other programs that show more about a message. Answers of the API and the pages of the console
// have links to them.
type Links struct {
	// TraceURL is the address of a trace, such as https://tempo.example/trace/{trace_id}; see dlq.TraceLink.
	TraceURL string `yaml:"trace_url" check:"trace link"`
	// KafkaURL is the address of a record in a web interface of Kafka, such as
	// https://kafka.example/topics/{topic}?p={partition}&o={offset}; see dlq.RecordLink.
	KafkaURL string `yaml:"kafka_url" check:"record link"`
}
