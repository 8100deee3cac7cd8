//go:build !linux

package e2e

import "syscall"

// diesWithUs has no equivalent on this system: the children survive a killed test program.
func diesWithUs() *syscall.SysProcAttr { return nil }
