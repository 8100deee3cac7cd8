//go:build !linux

package main

import "syscall"

// dieWithUs protects a program from Ctrl-C, since the benchmark stops its programs itself, in order.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
