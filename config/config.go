package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"

	"dlqmanager/dlq"
)

// DefaultPath is the file that is read if no other file is named, and if this file exists. The path is absolute, so that it
// does not depend on the working directory.
const DefaultPath = "/etc/dlq-manager/config.yaml"

// maxFileSize limits the configuration file, in bytes. Real files have a few kilobytes.
const maxFileSize = 1 << 20

// Config is the whole configuration. Load and Default return a valid configuration.
type Config struct {
	App      App      `yaml:"app"`
	Server   Server   `yaml:"server"`
	Auth     Auth     `yaml:"auth"`
	Database Database `yaml:"database"`
	Kafka    Kafka    `yaml:"kafka"`
	Ingest   Ingest   `yaml:"ingest"`
	Temporal Temporal `yaml:"temporal"`
	Archive  Archive  `yaml:"archive"`
	Audit    Audit    `yaml:"audit"`
	Jobs     Jobs     `yaml:"jobs"`
	Groups   Groups   `yaml:"groups"`
	Verify   Verify   `yaml:"verify"`
	Worker   Worker   `yaml:"worker"`
	Log      Log      `yaml:"log"`
	Tracing  Tracing  `yaml:"tracing"`

	SchemaRegistry SchemaRegistry `yaml:"schema_registry"`
	Targets        Targets        `yaml:"targets"`
	Console        Console        `yaml:"console"`
	Links          Links          `yaml:"links"`
	Masking        Masking        `yaml:"masking"`
}

// Default is the configuration without a file and without variables: loopback addresses, messages in memory, and no Kafka.
func Default() *Config {
	c := &Config{}
	setDefaults(reflect.ValueOf(c).Elem())
	c.Kafka.DLQTopicPattern, c.Kafka.ArchiveTopic, c.Kafka.MaxRetries = dlq.DefaultTopicPatterns, dlq.DefaultArchiveTopic, dlq.DefaultMaxRetries
	c.Groups.Header, c.Groups.MaxPerTopic = dlq.DefaultGroupHeader, dlq.MaxGroups
	c.Kafka.TLS.path, c.SchemaRegistry.TLS.path, c.Tracing.TLS.path = "kafka.tls", "schema_registry.tls", "tracing.tls"
	return c
}

// Load reads the file at path and the environment, and validates the result. environ has the form of os.Environ. If the
// configuration is invalid, the error is a Problems. Load opens only the configuration file and Temporal's profiles. CheckFiles
// opens all other files.
func Load(path string, environ []string) (*Config, error) {
	r := &report{sources: map[string]source{}}
	env := r.readEnviron(environ)
	c := Default()
	name, data, err := readFile(path, env)
	if err != nil {
		return nil, err
	}
	r.decodeFile(c, name, data)
	r.applyEnviron(c, env)
	r.resolveTemporal(&c.Temporal, env)
	r.validate(c)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.compare(b.source) })
		return nil, r.problems
	}
	return c, nil
}

// validate validates every section.
func (r *report) validate(c *Config) {
	r.unread = r.problems
	eachSection("", reflect.ValueOf(c).Elem(), func(path string, structure reflect.Value) {
		s := section{r, path}
		s.checkFields(structure)
		if rules, ok := structure.Addr().Interface().(interface{ validate(s section) }); ok {
			rules.validate(s)
		}
	})
}

// validate checks the rules that concern several sections.
func (c *Config) validate(s section) {
	c.validateAuth(s)
	c.validateConsole(s)
	c.validateTargets(s)
	c.validateTags(s)
	c.validateProduction(s)
}

// validateProduction requires some sections in production, where a missing section would lose messages or leave retries undone.
// In other environments a missing section has a documented meaning.
func (c *Config) validateProduction(s section) {
	if !c.App.Production() {
		return
	}
	missing := func(name, key, consequence string) {
		s.addAt("app.environment", name, "missing, and app.environment is %q: set %s.%s in the file or %s in the environment; without it %s",
			c.App.Environment, name, key, EnvName(name+"."+key), consequence)
	}
	if !c.Database.Configured() {
		missing("database", "host", "messages would be kept in memory only")
	}
	if !c.Kafka.Configured() {
		missing("kafka", "brokers", "retries would resolve without publishing anything")
	}
	if !c.Temporal.Configured() {
		missing("temporal", "address", "there is nothing to run retries (TEMPORAL_ADDRESS or a Temporal profile serve as well)")
	}
}

// CheckFiles reads every secret and certificate file that the configuration names. So a program with a wrong path fails at its
// start, and not at its first connection.
func (c *Config) CheckFiles() error {
	var errs []error
	eachSection("", reflect.ValueOf(c).Elem(), func(path string, structure reflect.Value) {
		for _, f := range keysOf(structure) {
			if f.tag.Get("file") == "secret" {
				_, err := secretFrom(Secret{}, below(path, f.path), f.value.String())
				errs = append(errs, err)
			}
		}
		if files, ok := structure.Addr().Interface().(interface{ checkFiles(path string) error }); ok {
			errs = append(errs, files.checkFiles(path))
		}
	})
	return errors.Join(errs...)
}

// readFile returns the path and the content of the configuration file. Both are empty if no file is named and DefaultPath does
// not exist.
func readFile(path string, env environment) (name string, data []byte, err error) {
	named := cmp.Or(path, env["DLQ_CONFIG"])
	path = cmp.Or(named, DefaultPath)
	info, err := os.Stat(path)
	if named == "" && errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("configuration file: %w", err)
	}
	if info.Size() > maxFileSize {
		return "", nil, fmt.Errorf("configuration file: %s has %d bytes, more than %d", path, info.Size(), maxFileSize)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("configuration file: %w", err)
	}
	return path, data, nil
}
