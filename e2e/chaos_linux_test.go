package e2e

import "syscall"

// diesWithUs makes the kernel kill the child when the test program ends, even if
// the test program is killed.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
