package kafkatest

import "syscall"

// dieWithParent makes the kernel end the server with the test binary, also
// when that is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
