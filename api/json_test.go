package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// For all valid JSON, splitting must agree with encoding/json.
func FuzzSplitJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, ` { "a" : 1 , "b":[{"c":"}\""}], "a":null} `, `[1, "x\\", {"a":{}} ,[[]],true,-1.5e3 ]`, `{"\u0061\"":"\\"}`, `[ ]`, `{"a":{"b":[1,2]},"":""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var list []json.RawMessage
		var object map[string]json.RawMessage
		trimmed := []byte(string(json.RawMessage(trimJSON(raw))))
		switch {
		case len(trimmed) == 0 || !json.Valid(trimmed):
		case trimmed[0] == '[':
			require.NoError(t, json.Unmarshal(trimmed, &list))
			got := elementsOf(trimmed)
			require.Len(t, got, len(list))
			for i := range list {
				require.Equal(t, string(list[i]), string(got[i]))
			}
		case trimmed[0] == '{':
			require.NoError(t, json.Unmarshal(trimmed, &object))
			got := map[string]json.RawMessage{}
			for _, m := range membersOf(trimmed) {
				got[m.name] = m.value // the last member counts
			}
			require.Len(t, got, len(object))
			for name := range object {
				require.Equal(t, string(object[name]), string(got[name]))
			}
		}
	})
}

func trimJSON(raw []byte) []byte {
	for len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\n' || raw[0] == '\t' || raw[0] == '\r') {
		raw = raw[1:]
	}
	return raw
}
