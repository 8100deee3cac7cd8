// Package demo is a shop whose services fail. They consume orders, payments and
// shipments. They send those that they cannot process to dead-letter topics, each in
// the format of its own framework. They also consume the messages that the manager
// sends back: most of them succeed then, some always fail.
//
// The shop is for demonstrations and tests. Its events come from a seed, so the same
// seed causes the same failures.
package demo
