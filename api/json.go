package api

import "encoding/json"

// These functions split JSON that is known to be valid. They look at each byte once and copy
// nothing: encoding/json would check each level of a request again.

// member is one field of an object.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf splits an object. A name that occurs twice is there twice.
func membersOf(object []byte) (members []member) {
	for i := skipSpace(object, 1); object[i] != '}'; {
		end := skipValue(object, i)
		var name string
		_ = json.Unmarshal(object[i:end], &name) // a valid string
		i = skipSpace(object, skipSpace(object, end)+1)
		end = skipValue(object, i)
		members = append(members, member{name, object[i:end:end]})
		if i = skipSpace(object, end); object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return members
}

// elementsOf splits an array.
func elementsOf(array []byte) (elements []json.RawMessage) {
	for i := skipSpace(array, 1); array[i] != ']'; {
		end := skipValue(array, i)
		elements = append(elements, array[i:end:end])
		if i = skipSpace(array, end); array[i] == ',' {
			i = skipSpace(array, i+1)
		}
	}
	return elements
}

func skipSpace(valid []byte, i int) int {
	for valid[i] == ' ' || valid[i] == '\t' || valid[i] == '\r' || valid[i] == '\n' {
		i++
	}
	return i
}

// skipValue returns the index after the value that begins at i.
func skipValue(valid []byte, i int) int {
	for depth := 0; ; i++ {
		switch valid[i] {
		case '"':
			for i++; valid[i] != '"'; i++ {
				if valid[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default: // a number, true, false or null
			for i+1 < len(valid) && !isDelimiter(valid[i+1]) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}

func isDelimiter(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n':
		return true
	default:
		return false
	}
}
