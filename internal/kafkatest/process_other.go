//go:build !linux

package kafkatest

import "syscall"

// dieWithParent has no equivalent on this system: the server ends with Stop or Kill.
func dieWithParent() *syscall.SysProcAttr { return nil }
