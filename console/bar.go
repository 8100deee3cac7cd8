package console

import (
	"fmt"
	"strings"
)

// barWidth is the width of a bar, in the units of its SVG.
const barWidth = 1000

// barPart is a part of a bar. Class is a colour of the style sheet.
type barPart struct {
	Class, Name string
	Count       int64
	// X and Width are in units of barWidth.
	X, Width string
}

// bar is a whole with its parts. The rest of the whole stays empty.
type bar struct {
	// Text describes the bar in words.
	Text  string
	Parts []barPart
}

// barOf draws the parts of a whole side by side. It leaves out a part without messages, and keeps a small part visible.
func (l locale) barOf(whole int64, parts ...barPart) bar {
	var sum int64
	for _, p := range parts {
		sum += max(p.Count, 0)
	}
	scale := float64(max(whole, sum, 1))
	var b bar
	var words []string
	at := 0.0
	for _, p := range parts {
		if p.Count <= 0 {
			continue
		}
		width := max(float64(p.Count)/scale*barWidth, 4)
		width = max(0, min(width, barWidth-at))
		p.X, p.Width = fmt.Sprintf("%.1f", at), fmt.Sprintf("%.1f", width)
		at += width
		b.Parts = append(b.Parts, p)
		words = append(words, p.Name+": "+l.number(p.Count))
	}
	if b.Text = strings.Join(words, ", "); b.Text == "" {
		b.Text = l.text("nothing yet")
	}
	return b
}
