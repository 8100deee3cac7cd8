package telemetry

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogOptions configure a logger.
type LogOptions struct {
	// Level may be changed later.
	Level *LogLevel
	// Format is json, or console for reading on a terminal; empty means json.
	Format string
	// Name and Version of the program are on every line of the log, unless they are empty.
	Name    string
	Version string
}

// NewLogger returns a logger that writes a line per entry to w: time (RFC 3339),
// level, msg, logger, caller, then the fields; durations are in seconds. There is no
// sampling, because each line about a message may be needed as evidence.
func NewLogger(w io.Writer, options LogOptions) (*zap.Logger, error) {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.SecondsDurationEncoder
	var encoder zapcore.Encoder
	switch options.Format {
	case "", "json":
		encoder = zapcore.NewJSONEncoder(encoding)
	case "console":
		encoder = zapcore.NewConsoleEncoder(encoding)
	default:
		return nil, fmt.Errorf("log format %q: use json or console", options.Format)
	}
	var fields []zap.Field
	if options.Name != "" {
		fields = append(fields, zap.String("app", options.Name))
	}
	if options.Version != "" {
		fields = append(fields, zap.String("version", options.Version))
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), options.Level.current)
	return zap.New(core, zap.AddCaller(), zap.AddStacktrace(zapcore.DPanicLevel), zap.Fields(fields...)), nil
}
