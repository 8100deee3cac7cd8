package config

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.temporal.io/sdk/contrib/envconfig"
)

// resolveTemporal merges Temporal's profiles and variables with the section's values,
// in the order that the type Temporal documents, and writes the result to t.
func resolveTemporal(t *Temporal, env environment, sources map[string]source) Problems {
	named := env["TEMPORAL_PROFILE"] != "" || env["TEMPORAL_CONFIG_FILE"] != ""
	stored, problem := storedProfile(env)
	if problem != nil {
		return Problems{*problem}
	}
	fromSection := *t
	useStored := stored.Address != "" && (named || !namesConnection(sources))

	profile := envconfig.ClientConfigProfile{Address: t.Address, Namespace: t.Namespace, TLS: t.TLS.profile()}
	if useStored {
		profile = stored
		t.StaticAPIKey, t.APIKeyFile, t.TLS = NewSecret(stored.APIKey), "", TemporalTLS{}
		profile.Namespace = cmp.Or(profile.Namespace, t.Namespace)
	}
	if err := profile.ApplyEnvVars(env); err != nil {
		return Problems{{source: source{variable: "TEMPORAL_…"}, Key: "temporal", Message: err.Error()}}
	}
	if env["TEMPORAL_API_KEY"] != "" {
		t.StaticAPIKey, t.APIKeyFile = NewSecret(profile.APIKey), ""
	}
	t.Address, t.Namespace = profile.Address, profile.Namespace
	t.resolved = &profile
	applyOwnVariables(t, fromSection, sources)

	if env["TEMPORAL_ADDRESS"] != "" && sources["temporal.address"].variable == "" {
		sources["temporal.address"] = source{variable: "TEMPORAL_ADDRESS"}
	}
	return nil
}

// applyOwnVariables lets DLQ_TEMPORAL_… override all other sources.
func applyOwnVariables(t *Temporal, own Temporal, sources map[string]source) {
	fromVariable := func(key string) bool { return sources["temporal."+key].variable != "" }
	if fromVariable("address") {
		t.Address = own.Address
	}
	if fromVariable("namespace") {
		t.Namespace = own.Namespace
	}
	if fromVariable("api_key") || fromVariable("api_key_file") {
		t.StaticAPIKey, t.APIKeyFile = own.StaticAPIKey, own.APIKeyFile
	}
	for key := range sources {
		if strings.HasPrefix(key, "temporal.tls.") && sources[key].variable != "" {
			t.TLS, t.resolved.TLS = own.TLS, own.TLS.profile()
		}
	}
}

// namesConnection reports whether the section or a DLQ_ variable sets the address, TLS
// or credentials.
func namesConnection(sources map[string]source) bool {
	keys := []string{"address", "api_key", "api_key_file", "tls"}
	return slices.ContainsFunc(keys, func(key string) bool { return given(sources, "temporal."+key) })
}

// storedProfile reads the profile from Temporal's own configuration file. The profile is empty
// when there is no such file or profile and none was named.
func storedProfile(env environment) (envconfig.ClientConfigProfile, *Problem) {
	path := cmp.Or(env["TEMPORAL_CONFIG_FILE"], defaultProfilePath(env))
	if path == "" && env["TEMPORAL_PROFILE"] == "" {
		return envconfig.ClientConfigProfile{}, nil
	}
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		ConfigFilePath: path,
		DisableEnv:     true,
		EnvLookup:      env,
	})
	if err != nil {
		return profile, &Problem{source: source{file: path}, Key: "temporal", Message: "Temporal's configuration file: " + err.Error()}
	}
	return profile, nil
}

// defaultProfilePath is the path that Temporal's own tools use, which follows from the
// given environment, not from the process's own.
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

// Environ and LookupEnv implement Temporal's interface for sources of variables.
func (e environment) Environ() []string {
	entries := make([]string, 0, len(e))
	for name, value := range e {
		entries = append(entries, name+"="+value)
	}
	return entries
}

// LookupEnv returns a variable and whether it is set.
func (e environment) LookupEnv(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}
