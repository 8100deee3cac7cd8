package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Timeouts of the listener. A normal scrape takes milliseconds.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	readyTimeout  = 3 * time.Second
)

// Server serves /metrics, /healthz and /readyz for a program without an API.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{} // closed when serving has ended
}

// Listen opens address and serves until Stop. address is host:port, and port 0 stands for a free port. The header Host of a
// request must be one of hosts, localhost or an IP address. metrics serves /metrics, and debug serves the paths below /debug/.
// checks has a check for each dependency. /readyz runs the checks in parallel and answers with their results. The status is 503
// when a check fails.
func Listen(address string, hosts []string, metrics, debug http.Handler, checks map[string]Check, logger *zap.Logger) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("/debug/", debug)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, healthBody{Status: "ok"})
	})
	mux.Handle("GET /readyz", readyHandler(NewReadiness(checks, readyTimeout, logger)))
	s := &Server{
		listener: listener,
		http: &http.Server{
			Handler:           forHosts(hosts, mux),
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
		_ = s.http.Serve(listener)
	}()
	return s, nil
}

// forHosts refuses requests with a Host header that names another server.
func forHosts(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !dlq.IsOwnHost(r.Host, hosts) {
			http.Error(w, fmt.Sprintf("%.100q is not known as a name of this server; server.allowed_hosts allows it", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Address returns host:port of the listener.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop accepts no new connections, and waits for the requests in flight. When ctx ends first, it closes their connections.
func (s *Server) Stop(ctx context.Context) error {
	stopped := s.http.Shutdown(ctx)
	if stopped != nil {
		_ = s.http.Close()
	}
	<-s.done
	return stopped
}

// healthBody is the answer to /healthz and /readyz. For each dependency, Checks has "ok", "away" or "no answer within 3s". A
// notice follows after "; ".
type healthBody struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

func readyHandler(ready *Readiness) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, status := healthBody{Status: "ok", Checks: map[string]string{}}, http.StatusOK
		for name, err := range ready.Results() {
			state := "ok"
			if withoutNotice(err) != nil {
				state, body.Status, status = "away", "unavailable", http.StatusServiceUnavailable
			}
			if late, isLate := errors.AsType[noAnswerError](err); isLate {
				state = late.Error()
			}
			if notice, isNotice := errors.AsType[*dlq.NoticeError](err); isNotice {
				state += "; " + notice.Notice
			}
			body.Checks[name] = state
		}
		writeJSON(w, status, body)
	}
}

func writeJSON(w http.ResponseWriter, status int, body healthBody) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
