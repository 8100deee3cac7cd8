//go:build !linux

package main

import "syscall"

// dieWithUs keeps Ctrl-C from a program: the programs are stopped in order.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
