package telemetry

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// slowInterval is the time between two readings of a value that rarely changes.
const slowInterval = time.Minute

var certificateExpiry = prometheus.NewDesc("dlq_certificate_expiry_timestamp_seconds",
	"When the first of the certificates of a configured file expires, in Unix time, by the use of the file.", []string{"use"}, nil)

// NewCertificateCollector exports when the certificates in PEM files expire. files has a path for each use, such as "server".
// Certificates are renewed while the program runs, so the files are read again, at most once a minute. A file that cannot be
// read is logged. The caller must register the collector.
func NewCertificateCollector(files map[string]string, logger *zap.Logger) prometheus.Collector {
	read := func(context.Context) (map[string]time.Time, error) {
		expiries := map[string]time.Time{}
		for use, file := range files {
			expiry, err := FirstExpiry(file)
			if err != nil {
				logger.Warn("cannot read a certificate for the metrics", zap.String("use", use), zap.Error(err))
				continue
			}
			expiries[use] = expiry
		}
		return expiries, nil
	}
	export := func(expiries map[string]time.Time, _ time.Time, to gauges) {
		for use, expiry := range expiries {
			to.add(certificateExpiry, float64(expiry.Unix()), use)
		}
	}
	return newCollector("the certificates", slowInterval, read, logger, export, certificateExpiry)
}

// FirstExpiry is the earliest time at which a certificate of a PEM file expires.
func FirstExpiry(file string) (first time.Time, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, err
		}
		if first.IsZero() || certificate.NotAfter.Before(first) {
			first = certificate.NotAfter
		}
	}
	if first.IsZero() {
		return time.Time{}, fmt.Errorf("no certificate in %s", file)
	}
	return first, nil
}
