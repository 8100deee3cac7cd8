package console

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func inBase64(keys ...Key) string {
	var lines strings.Builder
	for _, key := range keys {
		lines.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	}
	return lines.String()
}

func TestACookieIsReadableAsLongAsItsKeyIsInTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	first, second := NewKey(), NewKey()
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(inBase64(first))
	core, logs := observer.New(zap.ErrorLevel)
	file, err := NewKeyFile(path, zap.New(core))
	require.NoError(t, err)
	now := time.Now()
	file.now = func() time.Time { return now }
	s := &sealer{file.Keys}
	sealed, err := s.seal("name", "value")
	require.NoError(t, err)
	opens := func(sealed string) bool {
		var value string
		return s.open("name", sealed, &value) == nil && value == "value"
	}

	write(inBase64(second))
	require.True(t, opens(sealed), "the file is read once a second")
	now = now.Add(time.Second)
	require.False(t, opens(sealed))
	write(inBase64(second, first) + "\r\n")
	now = now.Add(time.Second)
	require.True(t, opens(sealed), "both keys open")
	newer, err := s.seal("name", "value")
	require.NoError(t, err)

	write(inBase64(second) + "half a key")
	now = now.Add(time.Second)
	require.True(t, opens(sealed), "the last valid file counts")
	require.Equal(t, 1, logs.Len())
	require.NotContains(t, logs.All()[0].ContextMap()["error"], "half")
	require.NoError(t, os.Remove(path))
	now = now.Add(time.Second)
	require.True(t, opens(newer))
	write(inBase64(second))
	now = now.Add(time.Second)
	require.True(t, opens(newer), "the newest key has sealed it")
	require.False(t, opens(sealed))
}

func TestAFileWithoutKeysIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "secret", base64.StdEncoding.EncodeToString([]byte("short")), strings.TrimRight(inBase64(NewKey()), "=\n")} {
		path := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := NewKeyFile(path, zap.NewNop())
		require.ErrorContains(t, err, "openssl rand -base64 32")
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := NewKeyFile("/nowhere/keys", zap.NewNop())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAFileOfKeysThatIsAwayIsToldOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	key := NewKey()
	require.NoError(t, os.WriteFile(path, []byte(inBase64(key)), 0o600))
	core, logs := observer.New(zap.ErrorLevel)
	file, err := NewKeyFile(path, zap.New(core))
	require.NoError(t, err)
	now := time.Now()
	file.now = func() time.Time { return now }
	for want, change := range []func() error{
		func() error { return nil }, func() error { return os.Remove(path) }, func() error { return os.Mkdir(path, 0o700) },
	} {
		require.NoError(t, change())
		for range 3 {
			now = now.Add(time.Second)
			require.Equal(t, []Key{key}, file.Keys())
		}
		require.Equal(t, want, logs.Len())
	}
	_, err = NewKeyFile(path, zap.NewNop())
	require.ErrorContains(t, err, "is not a regular file")
}
