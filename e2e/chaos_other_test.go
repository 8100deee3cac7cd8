//go:build !linux

package e2e

import "syscall"

// diesWithUs has no equivalent here: a killed test program leaves its children.
func diesWithUs() *syscall.SysProcAttr { return nil }
