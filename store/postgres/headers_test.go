package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestHeadersAreStoredAsKafkaWritesThem(t *testing.T) {
	t.Parallel()
	headers := []dlq.Header{{Key: "a", Value: []byte("bc")}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}}}
	// Zigzag varints: 3 headers; 1 "a" 2 "bc"; 0 "" -1; 1 "a" 0 "".
	want := []byte{6, 2, 'a', 4, 'b', 'c', 0, 1, 2, 'a', 0}
	require.Equal(t, want, encodeHeaders(headers))
	decoded, err := decodeHeaders(want)
	require.NoError(t, err)
	require.Equal(t, headers, decoded)
	require.Equal(t, []byte{0}, encodeHeaders(nil))
	decoded, err = decodeHeaders([]byte{0})
	require.NoError(t, err)
	require.Nil(t, decoded)
}

func TestDamagedHeadersAreAnError(t *testing.T) {
	t.Parallel()
	complete := encodeHeaders([]dlq.Header{{Key: "key", Value: []byte("value")}})
	for n := 1; n < len(complete); n++ {
		_, err := decodeHeaders(complete[:n])
		require.ErrorIs(t, err, errHeaders, n)
	}
	for _, damaged := range [][]byte{{0x80}, {1}, {2, 3, 'a', 0}, {0xfe, 0xff, 0xff, 0xff, 0x0f}, {2, 2, 'a', 3}} {
		_, err := decodeHeaders(damaged)
		require.ErrorIs(t, err, errHeaders, damaged)
	}
}

func FuzzDecodeHeaders(f *testing.F) {
	f.Add(encodeHeaders([]dlq.Header{{Key: "key", Value: []byte("value")}, {Key: "null"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		headers, err := decodeHeaders(b)
		if err != nil {
			return
		}
		again, err := decodeHeaders(encodeHeaders(headers))
		require.NoError(t, err)
		require.Equal(t, headers, again)
	})
}
