package config

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.temporal.io/sdk/contrib/envconfig"
)

// resolveTemporal merges Temporal's profiles and variables into t, in the order that the comment of the type Temporal has.
func (r *report) resolveTemporal(t *Temporal, env environment) {
	named := env["TEMPORAL_PROFILE"] != "" || env["TEMPORAL_CONFIG_FILE"] != ""
	path := cmp.Or(env["TEMPORAL_CONFIG_FILE"], defaultProfilePath(env))
	stored, err := storedProfile(path, env)
	if err != nil {
		r.add(source{file: path}, "temporal", "Temporal's configuration file: %s", err)
		return
	}
	fromSection := *t
	useStored := stored.Address != "" && (named || !r.namesConnection())

	profile := envconfig.ClientConfigProfile{Address: t.Address, Namespace: t.Namespace, TLS: t.TLS.profile()}
	if useStored {
		profile = stored
		t.StaticAPIKey, t.APIKeyFile, t.TLS = NewSecret(stored.APIKey), "", TemporalTLS{}
		profile.Namespace = cmp.Or(profile.Namespace, t.Namespace)
	}
	if err := profile.ApplyEnvVars(env); err != nil {
		r.add(source{variable: "TEMPORAL_…"}, "temporal", "%s", err)
		return
	}
	if env["TEMPORAL_API_KEY"] != "" {
		t.StaticAPIKey, t.APIKeyFile = NewSecret(profile.APIKey), ""
	}
	t.Address, t.Namespace = profile.Address, profile.Namespace
	t.resolved = &profile
	r.applyOwnVariables(t, fromSection)

	if env["TEMPORAL_ADDRESS"] != "" && r.sources["temporal.address"].variable == "" {
		r.sources["temporal.address"] = source{variable: "TEMPORAL_ADDRESS"}
	}
}

// applyOwnVariables makes the variables DLQ_TEMPORAL_… override all other sources.
func (r *report) applyOwnVariables(t *Temporal, own Temporal) {
	fromVariable := func(key string) bool { return r.sources["temporal."+key].variable != "" }
	if fromVariable("address") {
		t.Address = own.Address
	}
	if fromVariable("namespace") {
		t.Namespace = own.Namespace
	}
	if fromVariable("api_key") || fromVariable("api_key_file") {
		t.StaticAPIKey, t.APIKeyFile = own.StaticAPIKey, own.APIKeyFile
	}
	for key, at := range r.sources {
		if strings.HasPrefix(key, "temporal.tls.") && at.variable != "" {
			t.TLS, t.resolved.TLS = own.TLS, own.TLS.profile()
		}
	}
}

// namesConnection reports whether the section or a DLQ_ variable sets the address, the TLS settings or the credentials.
func (r *report) namesConnection() bool {
	keys := []string{"temporal.address", "temporal.api_key", "temporal.api_key_file", "temporal.tls"}
	return slices.ContainsFunc(keys, r.given)
}

// storedProfile reads the profile from Temporal's own configuration file. Without such a profile the result is empty. If a
// variable names a file or a profile that does not exist, the result is an error.
func storedProfile(path string, env environment) (envconfig.ClientConfigProfile, error) {
	if path == "" && env["TEMPORAL_PROFILE"] == "" {
		return envconfig.ClientConfigProfile{}, nil
	}
	if named := env["TEMPORAL_CONFIG_FILE"]; named != "" { // envconfig ignores a missing file
		if _, err := os.Stat(named); err != nil {
			return envconfig.ClientConfigProfile{}, err
		}
	}
	return envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		ConfigFilePath: path,
		DisableEnv:     true,
		EnvLookup:      env,
	})
}

// defaultProfilePath is the path that Temporal's own tools use. It depends on env, and not on the environment of the process.
func defaultProfilePath(env environment) string {
	var base string
	switch runtime.GOOS {
	case "windows":
		base = env["AppData"]
	case "darwin":
		if home := env["HOME"]; home != "" {
			base = filepath.Join(home, "Library", "Application Support")
		}
	default:
		if base = env["XDG_CONFIG_HOME"]; base == "" && env["HOME"] != "" {
			base = filepath.Join(env["HOME"], ".config")
		}
	}
	if base == "" {
		return ""
	}
	return filepath.Join(base, "temporalio", "temporal.toml")
}

// Environ is part of Temporal's interface for sources of variables.
func (e environment) Environ() []string {
	entries := make([]string, 0, len(e))
	for name, value := range e {
		entries = append(entries, name+"="+value)
	}
	return entries
}

// LookupEnv returns the value of a variable, and whether the variable is set.
func (e environment) LookupEnv(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}
