package dlq

import "iter"

// ExportPage is a page of messages that an export has chosen and not read yet, oldest first.
type ExportPage struct {
	Messages []Weight
	// Next is the place after which the next page begins; nil if no message is left.
	Next *Keyset
}

// Parts divides the page into parts whose messages have at most so many bytes together. A larger message is a part by
// itself.
func (p *ExportPage) Parts(most int64) iter.Seq[[]Weight] {
	return func(yield func([]Weight) bool) {
		begin, size := 0, int64(0)
		for i := range p.Messages {
			added := p.Messages[i].Size()
			if size += added; size > most && i > begin {
				if !yield(p.Messages[begin:i]) {
					return
				}
				begin, size = i, added
			}
		}
		if begin < len(p.Messages) {
			yield(p.Messages[begin:])
		}
	}
}
