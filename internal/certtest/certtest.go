// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority is a certificate authority of one test.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &Authority{certificate, key}
}

// Pool trusts this authority only.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return block("CERTIFICATE", a.certificate.Raw) }

// Option changes a certificate before it is signed.
type Option func(*x509.Certificate)

// ForHost makes the certificate valid for this host name only.
func ForHost(name string) Option {
	return func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{name} }
}

// Expired makes a certificate that was valid until a minute ago.
func Expired() Option {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
}

// ServerOnly makes a certificate that clients must not use.
func ServerOnly() Option {
	return func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
}

// Issue signs a certificate for 127.0.0.1, for servers and clients. name is its common name.
func (a *Authority) Issue(t testing.TB, name string, options ...Option) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, option := range options {
		option(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// PEM encodes a certificate and its key.
func PEM(t testing.TB, pair tls.Certificate) (certificate, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return block("CERTIFICATE", pair.Certificate[0]), block("PRIVATE KEY", der)
}

// Files are the paths of a certificate and its key.
type Files struct{ Cert, Key string }

// Write writes a certificate and its key into a new folder.
func Write(t testing.TB, pair tls.Certificate) Files {
	t.Helper()
	dir := t.TempDir()
	files := Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	files.Replace(t, pair)
	return files
}

// Replace renews the certificate and then the key, each atomically, as secret stores do.
func (f Files) Replace(t testing.TB, pair tls.Certificate) {
	t.Helper()
	certificate, key := PEM(t, pair)
	Replace(t, f.Cert, certificate)
	Replace(t, f.Key, key)
}

// Replace replaces a file atomically.
func Replace(t testing.TB, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// File writes a file into a new folder and returns its path.
func File(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	Replace(t, path, content)
	return path
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	return number
}
