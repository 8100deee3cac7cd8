package console

import (
	"time"

	"dlqmanager/client"
)

// faultData is why a message is not through: the last error first.
type faultData struct {
	// Send is the error of the last retry; empty if the consumer's error is the last.
	Send, SendCategory string
	SendNumber         int64
	SendAt             *time.Time
	// Text, Class and Faults are the consumer's.
	Text, Class, Cause string
	Stack              stack
}

func (v *visit) faultOf(m *client.MessageDetail) faultData {
	f := faultData{Text: visible(short(4000, m.ErrorMessage)), Class: visible(valueOf(m.ErrorClass)), Cause: visible(valueOf(m.CauseClass))}
	if n := len(m.Attempts); n > 0 && m.Status != client.StatusRESOLVED {
		last := m.Attempts[n-1]
		if last.Error != nil && last.Result != "delivered" {
			f.Send, f.SendCategory = visible(short(4000, *last.Error)), v.aboutCategory(last.Category)
			f.SendNumber, f.SendAt = last.Number, &last.EndedAt
		}
	}
	f.Stack = stackOf(m)
	return f
}
