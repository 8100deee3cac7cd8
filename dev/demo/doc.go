// Package demo is a shop whose services fail. They consume orders, payments and
// shipments, cannot process some of them, and send those to dead-letter topics,
// each in the way of its own framework. What the manager sends back is consumed
// again: most of it works then, some of it fails for good.
//
// It is a program to look at, to try the manager with, and to test it with: the
// events come from a seed, so the same seed makes the same mistakes.
package demo
