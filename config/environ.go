package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "DLQ_"

// environment has the variables by name. It leaves out empty variables.
type environment map[string]string

// EnvName is the environment variable of the key at path, such as DLQ_DATABASE_HOST for database.host.
func EnvName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// EnvNames lists every variable that sets a key, sorted.
func EnvNames() []string {
	var names []string
	for _, f := range fieldsOf("", reflect.ValueOf(&Config{}).Elem()) {
		names = append(names, EnvName(f.path))
	}
	slices.Sort(names)
	return names
}

func (r *report) readEnviron(environ []string) environment {
	env := environment{}
	for _, entry := range environ {
		if name, value, found := strings.Cut(entry, "="); found && value != "" {
			env[name] = value
		}
	}
	known := EnvNames()
	for name, value := range env {
		if !strings.HasPrefix(name, envPrefix) || isOtherVariable(name, value) {
			continue
		}
		if !slices.Contains(known, name) {
			r.add(source{variable: name}, "", "unknown variable%s", suggestion(name, known))
		}
	}
	return env
}

var (
	serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	serviceURL  = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// dlqctlVariables are for dlqctl. They may be set in the shell that starts a program.
var dlqctlVariables = []string{"DLQ_URL", "DLQ_CONTEXT", "DLQ_TOKEN", "DLQ_TOKEN_FILE", "DLQ_CA_FILE"}

// isOtherVariable recognises DLQ_ variables that are not keys. One of them is the path of the file. Other variables belong to
// dlqctl, to tests and to the development stack. Kubernetes also sets service links in every pod for a Service such as
// dlq-manager (DLQ_MANAGER_SERVICE_HOST, DLQ_MANAGER_PORT=tcp://10.0.0.7:80, ...).
func isOtherVariable(name, value string) bool {
	return name == "DLQ_CONFIG" || slices.Contains(dlqctlVariables, name) ||
		strings.HasPrefix(name, "DLQ_TEST_") || strings.HasPrefix(name, "DLQ_DEV_") ||
		serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && serviceURL.MatchString(value)
}

// applyEnviron sets every key that has a variable.
func (r *report) applyEnviron(c *Config, env environment) {
	for _, f := range fieldsOf("", reflect.ValueOf(c).Elem()) {
		name := EnvName(f.path)
		text, ok := env[name]
		if !ok || isOtherVariable(name, text) {
			continue
		}
		if _, secret := f.value.Interface().(Secret); !secret {
			text = strings.TrimSpace(text)
		}
		at := source{variable: name}
		maps.DeleteFunc(r.sources, func(key string, _ source) bool { return isWithin(key, f.path) }) // locations in the file
		r.sources[f.path] = at
		if err := setText(f.value, text); err != nil {
			r.add(at, f.path, "%s", err)
		} else if f.value.Kind() == reflect.Map {
			for entry := range f.value.Seq() {
				r.sources[below(f.path, entry.String())] = at
			}
		}
	}
}
