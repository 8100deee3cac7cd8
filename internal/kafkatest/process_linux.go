package kafkatest

import "syscall"

// dieWithParent makes the kernel kill the server when the test binary ends or is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
