package dlq_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestAnExportReadsPartsOfBoundedSizeAndLargeMessagesAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sizes, parts []int64 }{
		"no message":              {},
		"one part":                {[]int64{3, 3, 4}, []int64{10}},
		"several parts":           {[]int64{3, 3, 5, 6, 1, 1}, []int64{6, 5, 8}},
		"a large message":         {[]int64{1, 50, 1, 1}, []int64{1, 50, 2}},
		"large messages only":     {[]int64{50, 50}, []int64{50, 50}},
		"messages without a size": {[]int64{0, 0, 0}, []int64{0}},
	} {
		var page dlq.ExportPage
		for _, size := range c.sizes {
			page.Messages = append(page.Messages, dlq.Weight{ID: dlq.NewID(), Long: size / 2, Short: size - size/2})
		}
		var parts []int64
		var read []dlq.Weight
		for part := range page.Parts(10) {
			size := int64(0)
			for _, m := range part {
				size += m.Size()
			}
			parts, read = append(parts, size), append(read, part...)
		}
		require.Equal(t, c.parts, parts, name)
		require.Equal(t, page.Messages, read, name)
	}
	var page dlq.ExportPage
	page.Messages = make([]dlq.Weight, 3)
	for part := range page.Parts(1) {
		require.Len(t, part, 3)
		break
	}
	require.Len(t, slices.Collect(page.Parts(1)), 1)
}
