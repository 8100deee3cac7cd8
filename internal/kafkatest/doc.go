// Package kafkatest starts Kafka for tests: an in-process fake that can inject faults, or
// a real Apache Kafka. Both listen on loopback only, and leave no files or processes
// behind.
package kafkatest
