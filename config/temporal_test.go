package config_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/config"
	"dlqmanager/internal/certtest"
)

const profiles = `
[profile.default]
address = "default-profile:7233"
namespace = "default-ns"
api_key = "default-key"

[profile.cloud]
address = "cloud-profile:7233"
namespace = "cloud-ns"
api_key = "cloud-key"
[profile.cloud.tls]
server_name = "cloud.example"
`

// home writes Temporal's own configuration file to its default path. It returns the environment for this path.
func home(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "temporalio", "temporal.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(profiles), 0o600))
	return []string{"XDG_CONFIG_HOME=" + dir, "AppData=" + dir}
}

func TestTemporalOrderOfSources(t *testing.T) {
	t.Parallel()
	const section = "temporal: {address: 'section:7233', namespace: section-ns, api_key: section-key}"
	for name, c := range map[string]struct {
		text, address, namespace, key string
		environ                       []string
	}{
		"nothing":                       {"", "", "default", "", []string{"XDG_CONFIG_HOME="}},
		"default profile":               {"", "default-profile:7233", "default-ns", "default-key", nil},
		"section before that":           {section, "section:7233", "section-ns", "section-key", nil},
		"address without a key":         {"temporal: {address: 'section:7233'}", "section:7233", "default", "", nil},
		"profile that is asked for":     {section, "cloud-profile:7233", "cloud-ns", "cloud-key", []string{"TEMPORAL_PROFILE=cloud"}},
		"Temporal's variables":          {section, "variable:7233", "variable-ns", "variable-key", []string{"TEMPORAL_ADDRESS=variable:7233", "TEMPORAL_NAMESPACE=variable-ns", "TEMPORAL_API_KEY=variable-key"}},
		"variable over profile":         {section, "variable:7233", "cloud-ns", "cloud-key", []string{"TEMPORAL_PROFILE=cloud", "TEMPORAL_ADDRESS=variable:7233"}},
		"own variables before all":      {section, "own:7233", "own-ns", "own-key", []string{"TEMPORAL_PROFILE=cloud", "TEMPORAL_ADDRESS=x:1", "TEMPORAL_NAMESPACE=x", "TEMPORAL_API_KEY=x", "DLQ_TEMPORAL_ADDRESS=own:7233", "DLQ_TEMPORAL_NAMESPACE=own-ns", "DLQ_TEMPORAL_API_KEY=own-key"}},
		"own address, no foreign key":   {"", "own:7233", "default", "", []string{"DLQ_TEMPORAL_ADDRESS=own:7233"}},
		"task queue names no server":    {"temporal: {task_queue: q}", "default-profile:7233", "default-ns", "default-key", nil},
		"empty variable counts as none": {section, "section:7233", "section-ns", "section-key", []string{"TEMPORAL_ADDRESS="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := append(home(t), c.environ...)
			if name == "nothing" {
				environ = nil
			}
			loaded, err := load(t, c.text, environ...)
			require.NoError(t, err)
			require.Equal(t, c.address, loaded.Temporal.Address)
			require.Equal(t, c.namespace, loaded.Temporal.Namespace)
			key, err := loaded.Temporal.APIKey()
			require.NoError(t, err)
			require.Equal(t, c.key, key)

			options, err := loaded.Temporal.ClientOptions()
			require.NoError(t, err)
			if c.address == "" {
				c.address = client.DefaultHostPort
			}
			require.Equal(t, c.address, options.HostPort)
			require.Equal(t, c.namespace, options.Namespace)
			require.Equal(t, c.key != "", options.Credentials != nil)
			require.Equal(t, c.key != "", options.ConnectionOptions.TLS != nil, "an API key implies TLS")
		})
	}
}

func TestTemporalConfigFileOfTheEnvironment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.toml")
	require.NoError(t, os.WriteFile(path, []byte(profiles), 0o600))
	c, err := load(t, "temporal: {address: 'section:7233'}", "TEMPORAL_CONFIG_FILE="+path)
	require.NoError(t, err)
	require.Equal(t, "default-profile:7233", c.Temporal.Address)

	options, err := must(load(t, "", "TEMPORAL_CONFIG_FILE="+path, "TEMPORAL_PROFILE=cloud")).Temporal.ClientOptions()
	require.NoError(t, err)
	require.Equal(t, "cloud.example", options.ConnectionOptions.TLS.ServerName)

	missing := filepath.Join(t.TempDir(), "temporal.toml")
	require.Contains(t, problemsOf(t, "", "TEMPORAL_CONFIG_FILE="+missing)[0], "temporal: Temporal's configuration file: stat "+missing)

	problems := problemsOf(t, "", "TEMPORAL_CONFIG_FILE="+path, "TEMPORAL_PROFILE=nope")
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "unable to find profile nope")

	require.NoError(t, os.WriteFile(path, []byte("[[["), 0o600))
	require.Contains(t, problemsOf(t, "", "TEMPORAL_CONFIG_FILE="+path)[0], path+": temporal: Temporal's configuration file")
}

func must(c *config.Config, err error) *config.Config {
	if err != nil {
		panic(err)
	}
	return c
}

func TestTemporalTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificate(t)
	options := func(text string, environ ...string) client.Options {
		c, err := load(t, text, environ...)
		require.NoError(t, err)
		options, err := c.Temporal.ClientOptions()
		require.NoError(t, err)
		return options
	}
	require.Nil(t, options("temporal: {address: 'a:1'}").ConnectionOptions.TLS)

	on := options("temporal: {address: 'a:1', tls: {enabled: true}}").ConnectionOptions.TLS
	require.NotNil(t, on)
	require.Equal(t, uint16(tls.VersionTLS12), on.MinVersion)
	require.False(t, on.InsecureSkipVerify)

	off := options("temporal: {address: 'a:1', api_key: k, tls: {enabled: false}}").ConnectionOptions
	require.Nil(t, off.TLS)
	require.True(t, off.TLSDisabled)

	mutual := options("temporal: {address: 'a:1', tls: {ca_file: " + certFile + ", cert_file: " + certFile + ", key_file: " + keyFile + ", server_name: s}}").ConnectionOptions.TLS
	require.NotNil(t, mutual.RootCAs)
	require.Equal(t, "s", mutual.ServerName)
	require.Len(t, mutual.Certificates, 1)

	require.NotNil(t, options("temporal: {address: 'a:1'}", "TEMPORAL_TLS=true").ConnectionOptions.TLS)
	require.NotNil(t, options("", "TEMPORAL_ADDRESS=a:1", "TEMPORAL_TLS=false", "DLQ_TEMPORAL_TLS_ENABLED=true").ConnectionOptions.TLS)

	keyFromFile := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(keyFromFile, []byte("k"), 0o600))
	withKey := options("temporal: {address: 'a:1', api_key_file: " + keyFromFile + "}")
	require.NotNil(t, withKey.ConnectionOptions.TLS)
	require.NotNil(t, withKey.Credentials)
}

func TestTemporalSectionIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{address: t}":                                  `file:1: temporal.address: must be host:port, not "t"`,
		"{namespace: ''}":                               "file:1: temporal.namespace: is required",
		"{task_queue: ' '}":                             "file:1: temporal.task_queue: is required",
		"{ui_url: 'ui:8080'}":                           "file:1: temporal.ui_url: must be an http or https URL",
		"{tls: {cert_file: f}}":                         "file:1: temporal.tls: cert_file and key_file belong together",
		"{tls: {enabled: false, ca_file: f}}":           "file:1: temporal.tls: has settings, but enabled: false switches it off",
		"{address: 'a:1', api_key: a, api_key_file: b}": "file:1: temporal.api_key_file: cannot be used together",
	} {
		problems := problemsOf(t, "temporal: "+text)
		require.Len(t, problems, 1, text)
		require.Contains(t, problems[0], want)
	}
	require.Equal(t, []string{`TEMPORAL_ADDRESS: temporal.address: must be host:port, not "t"`}, problemsOf(t, "", "TEMPORAL_ADDRESS=t"))
}

func TestMissingCertificateIsFoundByCheckFiles(t *testing.T) {
	t.Parallel()
	c, err := load(t, "temporal: {address: 'a:1', tls: {ca_file: /nowhere/ca.pem}}")
	require.NoError(t, err)
	require.ErrorContains(t, c.CheckFiles(), "temporal.tls.ca_file: open /nowhere/ca.pem")
}

// certificate makes a certificate and its key, and writes both to files.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	files := certtest.Write(t, certtest.NewAuthority(t).Issue(t, "test"))
	return files.Cert, files.Key
}
