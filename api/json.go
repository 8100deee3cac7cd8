package api

import (
	"bytes"
	"encoding/json"
)

// The functions in this file split JSON that is known to be valid.

type member struct {
	name  string
	value json.RawMessage
}

// membersOf splits an object into its members. A name that occurs twice has two members.
func membersOf(object []byte) (members []member) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	_, _ = decoder.Token() // the brace
	for decoder.More() {
		token, _ := decoder.Token()
		name, _ := token.(string)
		var value json.RawMessage
		_ = decoder.Decode(&value)
		members = append(members, member{name, value})
	}
	return members
}

func elementsOf(array []byte) (elements []json.RawMessage) {
	_ = json.Unmarshal(array, &elements)
	return elements
}
