package console

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"dlqmanager/client"
)

const (
	maxShownHeaders = 500
	// maxHeaderText is how many bytes of one header are on the page, and maxHeadersText is how many bytes of
	// all headers.
	maxHeaderText  = 16 << 10
	maxHeadersText = 256 << 10
	// The page folds texts that are longer than longHeader.
	longHeader = 200
)

// headerView shows one header.
type headerView struct {
	Key string
	// Kind is null, text, int32, int64, hex or base64.
	Kind, Text string
	// At is the value as a time, if the name ends with "timestamp" and the value is an int64.
	At     *time.Time
	Size   int64
	IsCut  bool
	IsLong bool
	// IsRemoved is set if the header is not sent back.
	IsRemoved bool
}

// viewHeaders shows headers in their order; left is how many are not shown.
func viewHeaders(headers client.Headers) (views []headerView, left int) {
	total := 0
	for i, header := range headers {
		if i == maxShownHeaders || total > maxHeadersText {
			return views, len(headers) - i
		}
		h := viewHeader(header.Key, header.Value)
		h.IsRemoved = header.RemovedOnRetry != nil && *header.RemovedOnRetry
		total += len(h.Text) + len(h.Key)
		views = append(views, h)
	}
	return views, 0
}

func viewHeader(key string, value *[]byte) headerView {
	h := headerView{Key: visible(short(200, key)), Kind: "null"}
	if value == nil {
		return h
	}
	content := *value
	h.Size = int64(len(content))
	if number, kind := springNumber(key, content); kind != "" {
		h.Kind, h.Text = kind, strconv.FormatInt(number, 10)
		if kind == "int64" && strings.HasSuffix(key, "timestamp") && number > 0 && number < 1<<47 {
			h.At = new(time.UnixMilli(number).UTC())
		}
		return h
	}
	shown := content[:min(len(content), maxHeaderText)]
	switch {
	case isPlain(content):
		shown = cutText(content, maxHeaderText)
		h.Kind, h.Text = "text", visible(string(shown))
	case len(content) <= 64:
		h.Kind, h.Text = "hex", hex.EncodeToString(shown)
	default:
		h.Kind, h.Text = "base64", base64.StdEncoding.EncodeToString(shown)
	}
	h.IsCut = len(shown) < len(content)
	h.IsLong = len(h.Text) > longHeader
	return h
}

// springNumber reads the big-endian numbers that Spring writes. kind is empty for all other values.
func springNumber(key string, content []byte) (number int64, kind string) {
	isSpring := strings.HasPrefix(key, "kafka_") || strings.HasPrefix(key, "x-original-") || strings.HasPrefix(key, "retry_topic-")
	isNumber := slices.ContainsFunc([]string{"partition", "offset", "timestamp", "attempts", "deliveryAttempt"}, func(suffix string) bool {
		return strings.HasSuffix(key, suffix)
	})
	isDigits := strings.Trim(string(content), "0123456789") == ""
	if !isSpring || !isNumber || isDigits {
		return 0, ""
	}
	switch len(content) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(content))), "int32"
	case 8:
		return int64(binary.BigEndian.Uint64(content)), "int64"
	default:
		return 0, ""
	}
}
