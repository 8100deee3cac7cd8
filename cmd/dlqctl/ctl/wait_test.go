package ctl_test

import "time"

// How long and how often a test waits for something.
const (
	wait = 10 * time.Second
	tick = 5 * time.Millisecond
)
