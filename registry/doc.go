// Package registry decodes values and keys in Confluent's wire format with the schemas of a
// Schema Registry, and encodes edited values.
package registry
