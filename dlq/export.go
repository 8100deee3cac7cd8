package dlq

import "iter"

// ExportPage is a page of messages that an export has chosen and not read yet, oldest first.
type ExportPage struct {
	Messages []Chosen
	// Next is the place after which the next page begins; nil if no message is left.
	Next *Keyset
}

// Chosen is a message that an export is about to read.
type Chosen struct {
	ID ID
	// Bytes is the size of record, payload, error and stack trace, Text of all other texts and of the attempts.
	Bytes, Text int64
}

// Size is how much of the message an export reads, in bytes.
func (c Chosen) Size() int64 { return c.Bytes + c.Text }

// Parts divides the page into parts of at most so many bytes, and messages that are larger alone.
func (p *ExportPage) Parts(most int64) iter.Seq[[]Chosen] {
	return func(yield func([]Chosen) bool) {
		begin, size := 0, int64(0)
		for i, m := range p.Messages {
			if size += m.Size(); size > most && i > begin {
				if !yield(p.Messages[begin:i]) {
					return
				}
				begin, size = i, m.Size()
			}
		}
		if begin < len(p.Messages) {
			yield(p.Messages[begin:])
		}
	}
}
