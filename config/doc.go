// Package config reads the configuration of both programs: first the defaults, then a YAML file, then the environment. Each
// source overrides the sources before it.
//
// The caller can name the file. Otherwise DLQ_CONFIG can name it. Otherwise the file is DefaultPath, if this file exists. A
// file that was named must exist.
//
// Every key is also an environment variable. The variable of database.host is DLQ_DATABASE_HOST: DLQ_ and the path of the key
// in upper case, joined by underscores. A list has the form a,b and a map has the form a.dlq=a,b.dlq=b. An empty variable
// counts as not set, because Compose files and charts pass optional values that way.
//
// Nothing is ignored silently: an unknown key, an unknown DLQ_ variable or a malformed value stops the start. All problems are
// reported together, with file, line and key. Secrets are never printed; see Secret.
//
// Temporal's own TEMPORAL_ variables and profiles are read too. The comment of the type Temporal has their order.
package config
