package console

import (
	"context"
	"unicode/utf8"

	"dlqmanager/client"
)

// archivedData is the page of one archived message.
type archivedData struct {
	client.MessageDetail

	KeyText, ValueText bytesText
	// Shown are the first headers. Hidden is the number of all others.
	Shown  []shownHeader
	Hidden int
	// RestoredAs is the page of the message that this one was restored as, empty if it was not.
	RestoredAs string
}

// bytesText is the beginning of a key or a value.
type bytesText struct {
	// IsNull is Kafka's null, which differs from an empty value.
	IsNull, IsText, IsCut bool
	Text                  string
	Size                  int64
}

// shownHeader is a header with the size of its value.
type shownHeader struct {
	client.Headers_Item

	Size int64
}

// The page shows so much of a value, and so many headers.
const (
	maxArchivedValue   = 64 << 10
	maxArchivedHeaders = 200
)

// archived shows an archived message.
func (v *visit) archived() (*answer, error) {
	id := v.PathValue("id")
	var d archivedData
	err := v.together(func(ctx context.Context) error {
		found, err := v.api.GetArchivedMessage(ctx, id, nil)
		if err == nil {
			d.MessageDetail = found.Value
		}
		return err
	}, func(ctx context.Context) error {
		chain, err := v.api.GetMessageChain(ctx, id, nil)
		if err == nil {
			d.RestoredAs = restoredAs(id, chain.Value.Hops)
		}
		return nil // the API refuses a second restore anyway
	})
	if err != nil {
		return nil, err
	}
	d.KeyText, d.ValueText = textOf(d.Key), textOf(d.Value)
	for i, h := range d.Headers {
		if i == maxArchivedHeaders {
			d.Hidden = len(d.Headers) - i
			break
		}
		shown := shownHeader{Headers_Item: h}
		if h.Value != nil {
			shown.Size = int64(len(*h.Value))
		}
		d.Shown = append(d.Shown, shown)
	}
	return show("archived", v.text("Archived message"), d)
}

// restoredAs finds the page of the message that an archived one was restored as: it follows the archived one, and neither
// comes from Kafka nor is an edited copy.
func restoredAs(id string, hops []client.Hop) string {
	for _, hop := range hops {
		if hop.PreviousID != nil && *hop.PreviousID == id && hop.Source == nil && hop.EditedFrom == nil {
			if hop.Archived {
				return "/archive/" + hop.ID
			}
			return "/messages/" + hop.ID
		}
	}
	return ""
}

func textOf(b *client.Bytes) bytesText {
	if b == nil {
		return bytesText{IsNull: true}
	}
	t := bytesText{Size: b.Size}
	shown := b.Base64
	if len(shown) > maxArchivedValue {
		shown, t.IsCut = shown[:maxArchivedValue], true
		for range utf8.UTFMax - 1 { // do not cut within a character
			if r, size := utf8.DecodeLastRune(shown); r != utf8.RuneError || size != 1 {
				break
			}
			shown = shown[:len(shown)-1]
		}
	}
	if t.IsText = utf8.Valid(shown); t.IsText {
		t.Text = string(shown)
	}
	return t
}
