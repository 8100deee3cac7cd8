//go:build !linux

package main

import "syscall"

// dieWithUs protects a program from Ctrl-C, since the programs are stopped in order.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
