package telemetry

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogOptions configure a logger.
type LogOptions struct {
	// Level can be changed later.
	Level *LogLevel
	// Format is json, or console for people at a terminal. If it is empty, it is json.
	Format string
	// Name and Version of the program are in every line of the log, unless they are empty.
	Name    string
	Version string
}

// NewLogger returns a logger that writes one line to w for each entry. A line has time (RFC 3339), level, msg, logger and
// caller, followed by the fields. Durations are in seconds. No line is sampled away, because each line about a message may be
// needed as evidence.
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
