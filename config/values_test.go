package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "500ms": 500 * time.Millisecond, "10s": 10 * time.Second, "1h30m": 90 * time.Minute,
		"720h": 720 * time.Hour, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "106751d": 106751 * 24 * time.Hour,
	} {
		got, err := config.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.Std(), text)

		again, err := config.ParseDuration(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again, "%s is written as %s", text, got)
	}
	for _, text := range []string{"", "10", "d", "1.5d", "-1d", "1d-1h", "1d+1h", "-5s", "+5s", "5 s", "12h1d", "1dd", "1w", "106752d", "106751d24h", "99999999999999999999d", "3000000h"} {
		_, err := config.ParseDuration(text)
		require.Error(t, err, text)
	}
	require.Equal(t, "30d", config.Duration(720*time.Hour).String())
	require.Equal(t, "5m", config.Duration(5*time.Minute).String())
	require.Equal(t, "1h", config.Duration(time.Hour).String())
	require.Equal(t, "1h0m1s", config.Duration(time.Hour+time.Second).String())
	require.Equal(t, "10m", config.Duration(10*time.Minute).String())
	require.Equal(t, "20h", config.Duration(20*time.Hour).String())
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 0, "1": 1, "100B": 100, "512KiB": 512 << 10, "4MiB": 4 << 20, "1GiB": 1 << 30, "4 MiB": 4 << 20, "1048576": 1 << 20,
	} {
		var got, again config.Size
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, got.Bytes(), text)
		require.NoError(t, again.UnmarshalText([]byte(got.String())))
		require.Equal(t, got, again)
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "4MB", "4mib", "2GiB", "9223372036854775807KiB", "99999999999999999999"} {
		require.Error(t, new(config.Size).UnmarshalText([]byte(text)), text)
	}
}
