package dlq

import "fmt"

// Edit is an operator's change of a message before it is sent. Nil fields stay as they are.
type Edit struct {
	// Key and Value replace the key and the value of the message; a pointer to nil is Kafka's null.
	Key, Value *[]byte
	// IsJSON is set when the value was given as JSON. The value may then have to be encoded with a schema.
	IsJSON bool
	// Headers replace all headers.
	Headers *[]Header
}

// Fields are the names of the changed parts, for the audit.
func (e *Edit) Fields() []string {
	names := []string{}
	if e.Value != nil {
		names = append(names, "value")
	}
	if e.Key != nil {
		names = append(names, "key")
	}
	if e.Headers != nil {
		names = append(names, "headers")
	}
	return names
}

// Copy is the edited copy of a message, for Store.Replace. The copy has no Source, since Kafka has no record of it.
// suspicion is the Suspicion of the copy; empty if it is not suspicious any more.
func (e *Edit) Copy(d *Detail, suspicion string) Arrival {
	a := Arrival{
		ID: NewID(), DLQTopic: d.DLQTopic, Failure: d.Failure, Record: d.Record, Payload: d.Payload,
		PreviousID: d.ID, Schema: d.Schema, DecodeError: d.DecodeError,
	}
	a.Suspicion = suspicion
	e.Apply(&a.Record)
	if e.Value != nil {
		a.Payload = PayloadOf(*e.Value)
		a.Schema, a.DecodeError = Schema{}, "" // readers decode a value in the wire format
	}
	return a
}

// Apply changes a record.
func (e *Edit) Apply(r *Record) {
	if e.Value != nil {
		r.Value = *e.Value
	}
	if e.Key != nil {
		r.Key = *e.Key
	}
	if e.Headers != nil {
		r.Headers = *e.Headers
	}
}

// RestoredError refuses to restore a message that was restored before.
func RestoredError(m *Message) error {
	return m.refusal(fmt.Sprintf("it was restored as %s; retry that one, or restore it if it is archived too", RestoredID(m.ID)))
}

// ReplacedError refuses a change of a message that an edited copy has replaced.
func ReplacedError(m *Message, copyID ID) error {
	return m.refusal(fmt.Sprintf("its edited copy %s was sent in its place; edit or retry that one", copyID))
}
