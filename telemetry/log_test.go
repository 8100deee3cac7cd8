package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/telemetry"
)

// logged calls write with a logger and returns the lines as JSON objects.
func logged(t *testing.T, options telemetry.LogOptions, write func(*zap.Logger)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, options)
	require.NoError(t, err)
	write(logger)
	var lines []map[string]any
	for line := range bytes.SplitSeq(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var object map[string]any
		require.NoError(t, json.Unmarshal(line, &object), "%s", line)
		lines = append(lines, object)
	}
	return lines
}

func TestLinesAreJSONWithTimeLevelAndProgram(t *testing.T) {
	t.Parallel()
	lines := logged(t, telemetry.LogOptions{Level: level(t, "info"), Format: "json", Name: "dlq-manager", Version: "1.2.3"}, func(l *zap.Logger) {
		l.Named("api").Info("stored", zap.String("message_id", "m"), zap.Duration("took", 1500*time.Millisecond), zap.Error(errors.New("boom")))
	})
	require.Len(t, lines, 1)
	line := lines[0]
	_, err := time.Parse(time.RFC3339Nano, line["time"].(string))
	require.NoError(t, err)
	require.Contains(t, line["caller"], "telemetry/log_test.go:")
	delete(line, "time")
	delete(line, "caller")
	require.Equal(t, map[string]any{
		"level": "info", "logger": "api", "msg": "stored", "app": "dlq-manager", "version": "1.2.3",
		"message_id": "m", "took": 1.5, "error": "boom",
	}, line)
}

func TestLevelDropsLowerLines(t *testing.T) {
	t.Parallel()
	lines := logged(t, telemetry.LogOptions{Level: level(t, "warn")}, func(l *zap.Logger) {
		l.Debug("a")
		l.Info("b")
		l.Warn("c")
		l.Error("d")
	})
	require.Len(t, lines, 2)
	require.Equal(t, "c", lines[0]["msg"])
	require.Equal(t, "error", lines[1]["level"])
}

func TestNoLineIsSampledAway(t *testing.T) {
	t.Parallel()
	lines := logged(t, telemetry.LogOptions{Level: level(t, "info")}, func(l *zap.Logger) {
		for range 500 {
			l.Info("same")
		}
	})
	require.Len(t, lines, 500)
}

func TestConsoleFormatIsForReading(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, telemetry.LogOptions{Level: level(t, "info"), Format: "console"})
	require.NoError(t, err)
	logger.Info("hello")
	require.Contains(t, out.String(), "\tinfo\t")
	require.Contains(t, out.String(), "\thello\n")
}

func TestUnknownLevelAndFormatAreRefused(t *testing.T) {
	t.Parallel()
	_, err := telemetry.NewLogLevel("loud")
	require.ErrorContains(t, err, "loud")
	_, err = telemetry.NewLogger(&bytes.Buffer{}, telemetry.LogOptions{Level: level(t, "info"), Format: "xml"})
	require.ErrorContains(t, err, "xml")
}

func TestTemporalLogsLikeEverythingElse(t *testing.T) {
	t.Parallel()
	lines := logged(t, telemetry.LogOptions{Level: level(t, "debug")}, func(l *zap.Logger) {
		logger := telemetry.NewTemporalLogger(l)
		logger.Debug("one", "WorkflowID", "w", "RunID", "r", "TaskQueue", "q", "Error", errors.New("boom"))
		bound := log.With(logger, "ActivityType", "publish", "message_id", "m")
		bound.Info("two", "HTTPStatusCode", 503, "worker-id", 1)
		bound.Warn("three", 7, "odd key")
		bound.Error("four", "alone")
		logger.Info("five")
		log.Skip(logger, 0).Info("six")
		logger.Error("seven", "Error", fmt.Errorf("stopped: %w", context.Canceled))
		logger.Error("eight", "Error", temporal.NewCanceledError())
	})
	require.Len(t, lines, 8)
	for i, want := range []map[string]any{
		{"msg": "one", "level": "debug", "workflow_id": "w", "run_id": "r", "task_queue": "q", "error": "boom"},
		{"msg": "two", "level": "info", "activity_type": "publish", "message_id": "m", "http_status_code": 503.0, "worker_id": 1.0},
		{"msg": "three", "level": "warn", "activity_type": "publish", "message_id": "m", "7": "odd key"},
		{"msg": "four", "level": "error", "activity_type": "publish", "message_id": "m", "no_key": "alone"},
		{"msg": "five", "level": "info"},
		{"msg": "six", "level": "info"},
		{"msg": "seven", "level": "info", "error": "stopped: context canceled"},
		{"msg": "eight", "level": "info", "error": "canceled"},
	} {
		require.Contains(t, lines[i]["caller"], "telemetry/log_test.go:", "the caller is who logged, not the adapter")
		delete(lines[i], "time")
		delete(lines[i], "caller")
		require.Equal(t, want, lines[i])
	}
}
