package kafka

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger writes the client library's log lines to a zap logger.
type logger struct{ log *zap.Logger }

func newLogger(log *zap.Logger) kgo.Logger {
	return logger{log.WithOptions(zap.AddCallerSkip(1), zap.AddStacktrace(zapcore.FatalLevel))}
}

// Level lets the library skip lines that would not be logged.
func (l logger) Level() kgo.LogLevel {
	for _, level := range []kgo.LogLevel{kgo.LogLevelDebug, kgo.LogLevelInfo, kgo.LogLevelWarn, kgo.LogLevelError} {
		if l.log.Core().Enabled(zapLevel(level)) {
			return level
		}
	}
	return kgo.LogLevelNone
}

func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Sugar().Logw(zapLevel(level), msg, keyvals...)
}

// hourly limits the log lines of a lasting error to one an hour for each topic or group.
type hourly struct {
	mu     sync.Mutex
	since  time.Time
	logged map[string]bool
}

func (h *hourly) isDue(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.since) >= time.Hour {
		h.since, h.logged = time.Now(), map[string]bool{}
	}
	due := !h.logged[name]
	h.logged[name] = true
	return due
}

// zapLevel lowers the library's level info to debug: each rebalance logs all topics several times.
func zapLevel(level kgo.LogLevel) zapcore.Level {
	switch level {
	case kgo.LogLevelDebug, kgo.LogLevelInfo:
		return zapcore.DebugLevel
	case kgo.LogLevelWarn:
		return zapcore.WarnLevel
	default:
		return zapcore.ErrorLevel
	}
}
