package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"
)

// temporalLogger adapts a zap logger to the Temporal SDK.
type temporalLogger struct{ zap *zap.Logger }

var (
	_ log.Logger          = temporalLogger{}
	_ log.WithLogger      = temporalLogger{}
	_ log.WithSkipCallers = temporalLogger{}
)

// NewTemporalLogger makes the SDK, workflows and activities log to logger. Keys are written in snake case, such as workflow_id
// for WorkflowID and error for Error.
func NewTemporalLogger(logger *zap.Logger) log.Logger {
	return temporalLogger{logger.WithOptions(zap.AddCallerSkip(1))}
}

// Debug implements log.Logger.
func (l temporalLogger) Debug(msg string, keyvals ...any) { l.zap.Debug(msg, zapFields(keyvals)...) }

// Info implements log.Logger.
func (l temporalLogger) Info(msg string, keyvals ...any) { l.zap.Info(msg, zapFields(keyvals)...) }

// Warn implements log.Logger.
func (l temporalLogger) Warn(msg string, keyvals ...any) { l.zap.Warn(msg, zapFields(keyvals)...) }

// Error implements log.Logger. The SDK logs a cancelled activity or workflow as an error. Operators cancel on purpose, so such
// a line gets the level info and causes no alert.
func (l temporalLogger) Error(msg string, keyvals ...any) {
	level := zap.ErrorLevel
	if slices.ContainsFunc(keyvals, isCancellation) {
		level = zap.InfoLevel
	}
	l.zap.Log(level, msg, zapFields(keyvals)...)
}

func isCancellation(value any) bool {
	err, ok := value.(error)
	return ok && (errors.Is(err, context.Canceled) || temporal.IsCanceledError(err))
}

// With implements log.WithLogger.
func (l temporalLogger) With(keyvals ...any) log.Logger {
	return temporalLogger{l.zap.With(zapFields(keyvals)...)}
}

// WithCallerSkip implements log.WithSkipCallers.
func (l temporalLogger) WithCallerSkip(depth int) log.Logger {
	return temporalLogger{l.zap.WithOptions(zap.AddCallerSkip(depth))}
}

// zapFields makes pairs of keys and values. A value without a key gets the key "no_key".
func zapFields(keyvals []any) []zap.Field {
	fields := make([]zap.Field, 0, (len(keyvals)+1)/2)
	for pair := range slices.Chunk(keyvals, 2) {
		if len(pair) == 1 {
			fields = append(fields, zap.Any("no_key", pair[0]))
			break
		}
		fields = append(fields, zap.Any(snakeCase(fmt.Sprint(pair[0])), pair[1]))
	}
	return fields
}

// snakeCase converts WorkflowID to workflow_id, and TaskQueue to task_queue.
func snakeCase(key string) string {
	runes := []rune(key)
	var b strings.Builder
	for i, c := range runes {
		if unicode.IsUpper(c) {
			startsWord := i > 0 && runes[i-1] != '_' && runes[i-1] != '-' &&
				(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
			if startsWord {
				b.WriteByte('_')
			}
			c = unicode.ToLower(c)
		}
		if c == '-' || c == ' ' {
			c = '_'
		}
		b.WriteRune(c)
	}
	return b.String()
}
