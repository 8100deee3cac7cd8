package main

import "syscall"

// dieWithUs makes a program end when the benchmark is killed. It also protects the program
// from Ctrl-C, since the benchmark stops its programs itself, in order.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
