package telemetry

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof" // registers with http.DefaultServeMux too, which no listener serves
	"path"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// Profiles serves the profiles of net/http/pprof. The last part of the path is the name of the profile. The command line is not
// served.
func Profiles() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := path.Base(r.URL.Path); name {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Handler(name).ServeHTTP(w, r)
		}
	})
}

// NewDebugHandler serves the profiles and the log level of a program without an API. It needs no token, since it refuses
// clients on other hosts. kubectl port-forward counts as a client on the same host.
func NewDebugHandler(level *LogLevel, logger *zap.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/{profile}", func(w http.ResponseWriter, r *http.Request) {
		if seconds := r.FormValue("seconds"); seconds != "" {
			if n, err := strconv.Atoi(seconds); err != nil || n < 1 || n > maxProfile {
				http.Error(w, fmt.Sprintf("seconds must be a number from 1 to %d", maxProfile), http.StatusBadRequest)
				return
			}
		}
		Profiles().ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /debug/log-level", func(w http.ResponseWriter, _ *http.Request) { writeLevel(w, level) })
	mux.HandleFunc("PUT /debug/log-level", func(w http.ResponseWriter, r *http.Request) {
		period, text, err := readLevel(w, r)
		if err == nil {
			err = level.Set(text, period)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		logger.Warn("log level changed", zap.String("log_level", text), zap.Duration("for", period), zap.String("address", r.RemoteAddr))
		writeLevel(w, level)
	})
	sameOrigin := http.NewCrossOriginProtection().Handler(mux) // web pages of other sites cannot change the level
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.RemoteAddr) || !isLocal(r.Host) {
			http.Error(w, "only for clients on this host, such as kubectl port-forward", http.StatusForbidden)
			return
		}
		sameOrigin.ServeHTTP(w, r)
	})
}

// Limits of the period of a log level, and of the duration of a profile in seconds. The API has the same limits.
const (
	maxLogLevelPeriod = 24 * time.Hour
	maxProfile        = 120
)

// isLocal reports whether an address is 127.0.0.1, ::1 or localhost. Other loopback addresses are not local: a service mesh may
// use them to forward requests of other hosts.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return host == "127.0.0.1" || host == "::1" || host == "[::1]" || host == "localhost"
}

// levelBody is the body of a request and of an answer about the log level.
type levelBody struct {
	Level      string    `json:"level"`
	Configured string    `json:"configured,omitempty"`
	Until      time.Time `json:"until,omitzero"`
	For        string    `json:"for,omitempty"`
}

func readLevel(w http.ResponseWriter, r *http.Request) (period time.Duration, level string, err error) {
	var body levelBody
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return 0, "", fmt.Errorf(`the body must be like {"level": "debug", "for": "10m"}: %w`, err)
	}
	if body.For != "" {
		if period, err = time.ParseDuration(body.For); err != nil || period <= 0 || period > maxLogLevelPeriod {
			return 0, "", fmt.Errorf("for must be a duration of at most %s, such as 10m", maxLogLevelPeriod)
		}
	}
	return period, body.Level, nil
}

func writeLevel(w http.ResponseWriter, level *LogLevel) {
	var body levelBody
	body.Level, body.Configured, body.Until = level.Level()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
