package dlq

// Partition is a partition of a topic. A topic that was deleted and created again is
// another topic, with another id.
type Partition struct {
	TopicID [16]byte
	Number  int32
}

// Position is how far a partition has been ingested.
type Position struct {
	// Next is the offset of the next record to read, or FromStart.
	Next int64
	// Epoch is the leader epoch of the record before Next, or -1. The epoch shows whether an
	// unclean election has truncated the log since.
	Epoch int32
}

// FromStart is Position.Next of a partition from which nothing has been ingested.
const FromStart = -1

// Start is the position at the start of a partition.
var Start = Position{Next: FromStart, Epoch: -1}

// Advance moves the position of a partition, in the transaction that stores the records between From and To.
type Advance struct {
	Partition
	Topic string
	// From is the position that the caller started from. Its epoch is not compared.
	From, To Position
	// Lost is the number of offsets between From and To that Kafka deleted before they were read.
	Lost int64
}
