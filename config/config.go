package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// DefaultPath is read when no file is named and it exists. It is absolute, so that it
// does not depend on the working directory.
const DefaultPath = "/etc/dlq-manager/config.yaml"

// maxFileSize limits the configuration file, in bytes; a real file has a few kilobytes.
const maxFileSize = 1 << 20

// Config is the whole configuration. Load and Default return valid ones.
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
	Bulk     Bulk     `yaml:"bulk"`
	Groups   Groups   `yaml:"groups"`
	Verify   Verify   `yaml:"verify"`
	Worker   Worker   `yaml:"worker"`
	Log      Log      `yaml:"log"`
	Tracing  Tracing  `yaml:"tracing"`

	SchemaRegistry SchemaRegistry `yaml:"schema_registry"`
	Targets        Targets        `yaml:"targets"`
}

// Default is the configuration without a file or variables: loopback addresses,
// messages in memory, no Kafka.
func Default() *Config {
	return &Config{
		App:      defaultApp(),
		Server:   defaultServer(),
		Auth:     defaultAuth(),
		Database: defaultDatabase(),
		Kafka:    defaultKafka(),
		Temporal: defaultTemporal(),
		Archive:  defaultArchive(),
		Audit:    defaultAudit(),
		Bulk:     defaultBulk(),
		Groups:   defaultGroups(),
		Verify:   defaultVerify(),
		Worker:   defaultWorker(),
		Log:      defaultLog(),
		Tracing:  defaultTracing(),

		SchemaRegistry: defaultSchemaRegistry(),
	}
}

// Load reads the file at path and the environment, which has the form of os.Environ,
// and validates the result. The error of an invalid configuration is a Problems. Load
// opens no files but the configuration and Temporal's profiles; CheckFiles opens the
// others.
func Load(path string, environ []string) (*Config, error) {
	env, problems := parseEnviron(environ)
	c := Default()
	sources := map[string]source{}

	name, data, err := readFile(path, env)
	if err != nil {
		return nil, err
	}
	problems = append(problems, decodeFile(c, name, data, sources)...)
	problems = append(problems, applyEnviron(c, env, sources)...)
	problems = append(problems, resolveTemporal(&c.Temporal, env, sources)...)
	problems = append(problems, c.problems(sources).beyond(problems)...)
	if len(problems) > 0 {
		problems.sort()
		return nil, problems
	}
	return c, nil
}

// problems validates every section. sources tells where each value came from.
func (c *Config) problems(sources map[string]source) Problems {
	r := &report{sources: sources}
	c.App.validate(r)
	c.Server.validate(r)
	c.Auth.validate(r)
	c.validateAuth(r)
	c.Database.validate(r)
	c.Kafka.validate(r)
	c.Ingest.validate(r)
	c.Temporal.validate(r)
	c.Archive.validate(r)
	c.Audit.validate(r)
	c.Bulk.validate(r)
	c.Groups.validate(r)
	c.Verify.validate(r)
	c.Worker.validate(r)
	c.Log.validate(r)
	c.Tracing.validate(r)
	c.SchemaRegistry.validate(r)
	c.validateTargets(r)
	c.validateProduction(r)
	return r.problems
}

// validateProduction requires the sections without which a production system would lose
// messages or not run retries. In other environments a missing section has a documented
// meaning.
func (c *Config) validateProduction(r *report) {
	if !c.App.Production() {
		return
	}
	missing := func(section, key, consequence string) {
		r.addAt("app.environment", section, "missing, and app.environment is %q: set %s.%s in the file or %s in the environment; without it %s",
			c.App.Environment, section, key, EnvName(section+"."+key), consequence)
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

// CheckFiles reads every secret and certificate file that the configuration names. A
// wrong path thus stops the start and not the first connection.
func (c *Config) CheckFiles() error {
	var errs []error
	secret := func(key, path string) {
		if path == "" {
			return
		}
		if _, err := readSecretFile(path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	secret("database.user_file", c.Database.UserFile)
	secret("database.password_file", c.Database.PasswordFile)
	secret("database.migrations.user_file", c.Database.Migrations.UserFile)
	secret("database.migrations.password_file", c.Database.Migrations.PasswordFile)
	secret("kafka.sasl.password_file", c.Kafka.SASL.PasswordFile)
	secret("temporal.api_key_file", c.Temporal.APIKeyFile)
	secret("schema_registry.password_file", c.SchemaRegistry.PasswordFile)
	secret("schema_registry.token_file", c.SchemaRegistry.TokenFile)
	for name, endpoint := range c.Targets.Endpoints {
		secret("targets.endpoints."+name+".secrets_file", endpoint.SecretsFile)
		secret("targets.endpoints."+name+".token_file", endpoint.TokenFile)
	}
	if _, err := c.SchemaRegistry.TLS.Config(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Tracing.TLS.Config(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Temporal.TLS.check(); err != nil {
		errs = append(errs, err)
	} else if _, err := c.Temporal.ClientOptions(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Kafka.TLS.Config(); err != nil {
		errs = append(errs, err)
	}
	if c.Server.TLS.Configured() {
		if _, err := c.Server.TLS.Config(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.Database.CheckCertificates())...)
}

// readFile returns the name and the content of the configuration file. Both are empty
// when no file is named and DefaultPath does not exist.
func readFile(path string, env environment) (name string, data []byte, err error) {
	named := true
	if path == "" {
		path = env["DLQ_CONFIG"]
	}
	if path == "" {
		path, named = DefaultPath, false
	}
	info, err := os.Stat(path)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("configuration file: %w", err)
	}
	if info.IsDir() {
		return "", nil, fmt.Errorf("configuration file: %s is a directory", path)
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
