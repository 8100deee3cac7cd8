package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Limits of the metrics listener. A scrape takes milliseconds; what takes longer
// is not a scraper.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	readyTimeout  = 3 * time.Second
)

// Check says why a dependency is away, or nil when it is there. It must heed its
// context.
type Check = func(context.Context) error

// Server serves /metrics, /healthz and /readyz for a program without an API of
// its own.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{} // closed when serving has ended
	served   error         // why it ended; read after done
}

// Listen opens address (host:port; port 0 takes a free one) and serves until
// Stop. metrics is what /metrics answers. checks are the dependencies by name;
// /readyz runs them at once and answers 503 with what they say as long as one of
// them fails.
func Listen(address string, metrics http.Handler, checks map[string]Check, logger *zap.Logger) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, readiness{Status: "ok"})
	})
	mux.Handle("GET /readyz", readyHandler(checks, logger))
	s := &Server{
		listener: listener,
		http: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			ErrorLog:          zap.NewStdLog(logger),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.served = s.http.Serve(listener)
	}()
	return s, nil
}

// Address is where it listens, host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop takes no new connections and waits for answers in flight until ctx ends;
// then it cuts them off. It returns what made the listener fail, if anything did.
func (s *Server) Stop(ctx context.Context) error {
	stopped := s.http.Shutdown(ctx)
	if stopped != nil {
		_ = s.http.Close()
	}
	<-s.done
	if !errors.Is(s.served, http.ErrServerClosed) {
		return errors.Join(stopped, s.served)
	}
	return stopped
}

// readiness is the body of /readyz. Checks has "ok" or the reason for each
// dependency.
type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

func readyHandler(checks map[string]Check, logger *zap.Logger) http.Handler {
	type answer struct {
		name string
		err  error
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		answers := make(chan answer, len(checks))
		for name, check := range checks {
			go func() { answers <- answer{name, check(ctx)} }()
		}
		body, status := readiness{Status: "ok", Checks: map[string]string{}}, http.StatusOK
		for name := range checks {
			body.Checks[name] = "no answer within " + readyTimeout.String()
		}
		for range checks {
			select {
			case a := <-answers:
				if body.Checks[a.name] = "ok"; a.err != nil {
					// The cause names hosts and users: it is for the log, not
					// for whoever can reach the port.
					body.Checks[a.name] = "away"
					logger.Warn("not ready", zap.String("dependency", a.name), zap.Error(a.err))
				}
			case <-ctx.Done():
			}
		}
		for _, said := range body.Checks {
			if said != "ok" {
				body.Status, status = "unavailable", http.StatusServiceUnavailable
			}
		}
		writeJSON(w, status, body)
	})
}

func writeJSON(w http.ResponseWriter, status int, body readiness) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone; nobody is left to tell
}
