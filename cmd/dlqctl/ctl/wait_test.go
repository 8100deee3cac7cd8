package ctl_test

import "time"

// The longest time that a test waits, and the time between two looks.
const (
	wait = 10 * time.Second
	tick = 5 * time.Millisecond
)
