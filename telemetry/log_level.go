package telemetry

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogLevel is the level of a program's log, which can be changed while the program runs. It is safe
// for concurrent use.
type LogLevel struct {
	configured zapcore.Level
	current    zap.AtomicLevel

	mu    sync.Mutex
	until time.Time // when the configured level returns; zero for never
	timer *time.Timer
}

// NewLogLevel returns a level that is debug, info, warn or error.
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

// Set changes the level. The configured level returns after the period; with a period of zero, the
// new level stays until the program ends.
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

// restore brings the configured level back, unless the level was changed again.
func (l *LogLevel) restore(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.Equal(until) {
		l.current.SetLevel(l.configured)
		l.until, l.timer = time.Time{}, nil
	}
}

// Level returns the current level, the configured level, and when the configured level returns: zero for never.
func (l *LogLevel) Level() (current, configured string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.Level().String(), l.configured.String(), l.until
}
