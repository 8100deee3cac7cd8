// Package kafkatest gives tests a Kafka to talk to: an in-process one with
// faults on demand, and a real Apache Kafka where what matters is what the real
// one does. Both listen on loopback only and leave nothing behind.
package kafkatest
