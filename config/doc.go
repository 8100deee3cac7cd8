// Package config reads the configuration of both programs: defaults, a YAML file,
// then the environment. Each source overrides the sources before.
//
// The caller names the file, else DLQ_CONFIG names it, else the file is
// DefaultPath if it exists. A file that was named must exist.
//
// Every key is also an environment variable: DLQ_ and the key's path in upper case,
// joined by underscores, such as DLQ_DATABASE_HOST for database.host. A list has the form
// a,b and a map has the form a.dlq=a,b.dlq=b. An empty variable counts as not set,
// because Compose files and charts pass optional values that way.
//
// Nothing is ignored silently: an unknown key, an unknown DLQ_ variable or a malformed
// value stops the start. All problems are reported at once, with file, line and key.
// Secrets are never printed; see Secret.
//
// Temporal's own TEMPORAL_ variables and profiles are read too. The type Temporal
// documents their order.
package config
