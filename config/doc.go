// Package config reads the configuration of both programs: defaults, one YAML
// file, then the environment. Each later layer wins.
//
// The file is the one that the caller names, else the one that DLQ_CONFIG
// names, else DefaultPath if it exists. A file that was named must exist.
//
// Every key can be set from the environment: DLQ_ and the key's path in upper
// case, joined by underscores, such as DLQ_DATABASE_HOST for database.host.
// Lists are separated by commas, and so are maps, as in a.dlq=a,b.dlq=b. A
// variable that is empty counts as not set, because Compose files and charts
// pass optional values that way.
//
// Nothing is ignored silently: an unknown key, an unknown DLQ_ variable or a
// malformed value stops the start, and all problems are reported at once with
// file, line and key. Secrets never print; see Secret.
//
// Temporal's own TEMPORAL_ variables and profiles are read too; the order among
// them is told at Temporal.
package config
