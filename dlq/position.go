package dlq

// Partition is a partition of a topic. A topic that was deleted and created again is
// another topic.
type Partition struct {
	TopicID [16]byte
	Number  int32
}

// Position is how far a partition has been taken in.
type Position struct {
	// Next is the offset of the next record to read, or FromStart.
	Next int64
	// Epoch is the leader epoch of the record before it, or -1. It tells whether the
	// log has been cut off since, by an unclean election.
	Epoch int32
}

// FromStart is Position.Next of a partition of which nothing has been taken in.
const FromStart = -1

// Start is the position at the start of the log.
var Start = Position{Next: FromStart, Epoch: -1}

// Advance moves the position of a partition, together with the records in between.
type Advance struct {
	Partition
	Topic string
	// From is where the caller believes the position to be. The epoch does not matter.
	From, To Position
	// Lost is how many offsets in between Kafka had deleted before they were read.
	Lost int64
}
