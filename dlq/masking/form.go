package masking

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// Form is what stands in the place of a hidden value.
type Form string

// The forms. The first form tells least.
const (
	Remove Form = "remove" // the member is gone; an item of a list is null
	Mask   Form = "mask"   // three asterisks, whatever the length
	Hash   Form = "hash"   // HMAC: equal values have equal hashes
	Last4  Form = "last4"  // the last four characters of twelve or more
)

// Forms lists every form. If several forms apply to a value, the first of them in this list counts.
var Forms = []Form{Remove, Mask, Hash, Last4}

// Stronger returns the form that tells less. An empty form stands for no form.
func Stronger(a, b Form) Form {
	if a == "" || b != "" && slices.Index(Forms, b) < slices.Index(Forms, a) {
		return b
	}
	return a
}

// Hidden stands in the place of a hidden text.
const Hidden = "***"

// last4Least is how many characters a value must have, so that its last four characters are shown.
const last4Least = 12

// Of returns the text that stands for a hidden value. For Remove, Of is for a value that the caller cannot leave out.
func (f Form) Of(value string, secret []byte) string {
	switch f {
	case Hash:
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(value))
		return "hmac:" + hex.EncodeToString(mac.Sum(nil)[:16])
	case Last4:
		if utf8.ValidString(value) && utf8.RuneCountInString(value) >= last4Least && !strings.ContainsAny(value, "{}[]") {
			characters := []rune(value)
			return Hidden + string(characters[len(characters)-4:])
		}
	case Remove, Mask:
	}
	return Hidden
}
