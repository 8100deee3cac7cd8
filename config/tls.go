package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// readAuthorities reads the trusted certificates of a PEM file. Its errors name the key.
func readAuthorities(key, path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in %s", key, path)
	}
	return pool, nil
}

// readCertificate reads a certificate and its private key. Its errors name the keys.
func readCertificate(certKey, certFile, keyKey, keyFile string) (tls.Certificate, error) {
	certificate, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", certKey, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", keyKey, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s and %s: %w", certKey, keyKey, err)
	}
	return pair, nil
}
