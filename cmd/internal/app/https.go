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

// certificateAge limits the age of the server's certificate in memory. If the certificate is older, a handshake reads the files
// again.
const certificateAge = time.Second

// encrypt makes the listener serve TLS, if a certificate is configured.
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
	// Each handshake gets its configuration from get. The configuration below keeps the keys of session tickets over all
	// handshakes.
	return tls.NewListener(listener, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.get(), nil },
	}), nil
}

// certificates is the TLS configuration from files that may be replaced.
type certificates struct {
	files config.ServerTLS
	log   *zap.Logger

	mu      sync.Mutex
	current *tls.Config
	read    time.Time
	problem string // the problem of the files that was logged last
}

// get returns the configuration for a handshake. While the files are invalid, it returns the last valid configuration: a
// certificate and its key are not replaced at the same moment.
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

// report logs a problem of the files once, until the problem changes. A nil error means that the problem is solved.
func (c *certificates) report(text string, err error) {
	problem := fmt.Sprint(err)
	if err != nil && problem != c.problem {
		c.log.Error(text, zap.Error(err))
	}
	c.problem = problem
}

// expiry is the error that clients get if the certificate has expired. Clients do not report it to the server.
func expiry(config *tls.Config) error {
	if end := config.Certificates[0].Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("server.tls.cert_file: the certificate expired at %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// load reads the files. The server logs why it refuses a client, because the TLS alert to the client does not name the reason.
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
