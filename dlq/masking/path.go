package masking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxSegments limits the segments of a path, since each segment is a bit of a state.
const maxSegments = 32

// Path selects values in JSON, such as customer.email, items.*.card or **.iban. Dots separate names and the indexes of
// lists. * stands for any name or index, ** for any number of names and indexes, and \ makes the next character literal.
// The path * alone stands for the whole document.
type Path struct {
	text     string
	segments []segment
}

type segment struct {
	kind segmentKind
	name string
}

type segmentKind int

const (
	named segmentKind = iota
	anyOne
	anyNumber
)

// ParsePath reads a path of the configuration.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	var name strings.Builder
	isLiteral := false // a part of the segment is escaped
	end := func() error {
		s := segment{name: name.String()}
		name.Reset()
		switch {
		case !isLiteral && s.name == "*":
			s.kind = anyOne
		case !isLiteral && s.name == "**":
			s.kind = anyNumber
		case s.name == "":
			return errors.New("has an empty name; write customer.email, without dots at its ends")
		case !isLiteral && strings.ContainsAny(s.name, "*[]$"):
			return fmt.Errorf(`has %q: * stands alone between dots, lists are written items.*.card or items.0.card, and \ makes a character literal`, s.name)
		}
		isLiteral = false
		p.segments = append(p.segments, s)
		return nil
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			isLiteral = true
			name.WriteByte(text[i])
		case c == '\\':
			return Path{}, errors.New(`ends with \, which makes the next character literal`)
		case c == '.':
			if err := end(); err != nil {
				return Path{}, err
			}
		default:
			name.WriteByte(c)
		}
	}
	if err := end(); err != nil {
		return Path{}, err
	}
	if len(p.segments) > maxSegments {
		return Path{}, fmt.Errorf("has %d names, more than %d", len(p.segments), maxSegments)
	}
	return p, nil
}

// Whole is the path of the whole document.
var Whole = Path{text: "*", segments: []segment{{kind: anyOne}}}

var literals = strings.NewReplacer(`\`, `\\`, ".", `\.`, "*", `\*`, "[", `\[`, "]", `\]`, "$", `\$`)

// Literal escapes a name for a path. An empty name becomes *, since no path can have an empty name.
func Literal(name string) string {
	if name == "" {
		return "*"
	}
	return literals.Replace(name)
}

// String is the path as it was written.
func (p Path) String() string { return p.text }

// IsWhole reports whether the path stands for the whole document.
func (p Path) IsWhole() bool { return len(p.segments) == 1 && p.segments[0].kind == anyOne }

// A state is the set of the segments that the next name may match: bit i stands for segment i. The bit after the last
// segment means that the path has matched.

// start is the state at the root.
func (p Path) start() uint64 {
	if p.IsWhole() {
		return 2
	}
	return p.close(1)
}

// close adds the segment after each ** in the state, since ** also stands for no name at all.
func (p Path) close(state uint64) uint64 {
	for i, s := range p.segments {
		if s.kind == anyNumber && state&(1<<i) != 0 {
			state |= 1 << (i + 1)
		}
	}
	return state
}

// step returns the state after a name or an index. matches reports whether the name of a segment fits.
func (p Path) step(state uint64, matches func(name string) bool) uint64 {
	var next uint64
	for i, s := range p.segments {
		switch {
		case state&(1<<i) == 0:
		case s.kind == anyNumber:
			next |= 1 << i
		case s.kind == anyOne || matches(s.name):
			next |= 1 << (i + 1)
		}
	}
	return p.close(next)
}

// hasMatched reports whether the path hides a value with this state.
func (p Path) hasMatched(state uint64) bool { return state&(1<<len(p.segments)) != 0 }

// Covers reports whether the path hides the value at a place, or a value around that value. A reader chose the names of
// the place, and may count an index from the end of the list. So any two indexes count as equal.
func (p Path) Covers(place []string) bool {
	if p.IsWhole() {
		return true
	}
	state := p.start()
	for _, name := range place {
		state = p.step(state, func(own string) bool { return own == name || isIndex(own) && isIndex(name) })
		if p.hasMatched(state) {
			return true
		}
	}
	return false
}

func isIndex(name string) bool {
	return strings.Trim(strings.TrimSpace(strings.TrimLeft(name, "+- ")), "0123456789") == "" && strings.ContainsAny(name, "0123456789")
}

// EndsIn reports whether the last name of the path is one of names, or a wildcard.
func (p Path) EndsIn(names ...string) bool {
	last := p.segments[len(p.segments)-1]
	return last.kind != named || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(last.name, name) })
}
