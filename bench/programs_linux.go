package main

import "syscall"

// dieWithUs ends a program when this one is killed, and protects it from Ctrl-C, since
// the programs are stopped in order.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
