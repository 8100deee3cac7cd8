package main

import "syscall"

// dieWithUs ends a program when this one is killed, and keeps Ctrl-C from it:
// the programs are stopped in order.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
