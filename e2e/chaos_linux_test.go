package e2e

import "syscall"

// diesWithUs makes the kernel end the child with the test program, also when
// that is killed.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
