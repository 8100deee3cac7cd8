package app

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"dlqmanager/config"
)

// certificateAge is how old the server's certificate may be in memory. A handshake after
// that reads the files again.
const certificateAge = time.Second

// encrypt makes the listener serve TLS, if certificates are configured.
func encrypt(listener net.Listener, files config.ServerTLS, log *zap.Logger) (net.Listener, error) {
	if !files.Configured() {
		return listener, nil
	}
	c := &certificates{files: files, log: log}
	current, err := c.load()
	if err != nil {
		return nil, err
	}
	c.current, c.read = current, time.Now()
	c.report("clients refuse the certificate", expiry(current))
	// Each handshake gets its configuration from get. This configuration has the session keys.
	return tls.NewListener(listener, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.get(), nil },
	}), nil
}

// certificates is the TLS configuration from files that may change.
type certificates struct {
	files config.ServerTLS
	log   *zap.Logger

	mu      sync.Mutex
	current *tls.Config
	read    time.Time
	problem string // of the files, as logged
}

// get returns the configuration for a handshake. While the files are invalid, get returns the
// last valid configuration: a certificate and its key are not replaced at the same moment.
func (c *certificates) get() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < certificateAge {
		return c.current
	}
	c.read = time.Now()
	renewed, err := c.load()
	if err != nil {
		c.report("the certificate cannot be renewed; the earlier one stays in use", err)
		return c.current
	}
	c.report("clients refuse the certificate", expiry(renewed))
	if !bytes.Equal(leaf(renewed), leaf(c.current)) {
		c.log.Info("the certificate was renewed", zap.String("server.tls.cert_file", c.files.CertFile))
	}
	c.current = renewed
	return renewed
}

// report logs a problem of the files once. A nil error means that the problem is solved.
func (c *certificates) report(text string, err error) {
	problem := fmt.Sprint(err)
	if err != nil && problem != c.problem {
		c.log.Error(text, zap.Error(err))
	}
	c.problem = problem
}

// expiry is the error that clients get from an expired certificate. They do not tell the server.
func expiry(config *tls.Config) error {
	if end := config.Certificates[0].Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("server.tls.cert_file: the certificate expired at %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// load reads the files. Refused clients are logged, because the alert that they get does
// not name the cause.
func (c *certificates) load() (*tls.Config, error) {
	loaded, err := c.files.Config()
	if err != nil || loaded.VerifyConnection == nil {
		return loaded, err
	}
	verify := loaded.VerifyConnection
	loaded.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(state)
		if err != nil {
			c.log.Info("a client's certificate was refused", zap.Error(err))
		}
		return err
	}
	return loaded, nil
}

func leaf(c *tls.Config) []byte { return c.Certificates[0].Certificate[0] }
