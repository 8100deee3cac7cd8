package telemetry

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogLevel is the level of a program's log. It can be changed while the program runs, and is safe for concurrent use.
type LogLevel struct {
	configured zapcore.Level
	current    zap.AtomicLevel

	mu    sync.Mutex
	until time.Time // when the configured level returns; zero if it does not return
	timer *time.Timer
}

// NewLogLevel returns the level that text names: debug, info, warn or error.
func NewLogLevel(text string) (*LogLevel, error) {
	level, err := parseLevel(text)
	if err != nil {
		return nil, err
	}
	return &LogLevel{configured: level, current: zap.NewAtomicLevelAt(level)}, nil
}

func parseLevel(text string) (zapcore.Level, error) {
	switch text {
	case "debug", "info", "warn", "error":
		return zapcore.ParseLevel(text)
	default:
		return 0, fmt.Errorf("log level %q: use debug, info, warn or error", text)
	}
}

// Set changes the level. The configured level returns after the period. If the period is zero, the new level stays until the
// program ends.
func (l *LogLevel) Set(text string, period time.Duration) error {
	level, err := parseLevel(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.current.SetLevel(level)
	l.until, l.timer = time.Time{}, nil
	if period > 0 && level != l.configured {
		until := time.Now().Add(period)
		l.until = until
		l.timer = time.AfterFunc(period, func() { l.restore(until) })
	}
	return nil
}

// restore sets the configured level again, unless the level was changed after Set.
func (l *LogLevel) restore(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.Equal(until) {
		l.current.SetLevel(l.configured)
		l.until, l.timer = time.Time{}, nil
	}
}

// Level returns the current level, the configured level, and the time at which the configured level returns. The time is zero
// if it does not return.
func (l *LogLevel) Level() (current, configured string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.Level().String(), l.configured.String(), l.until
}
