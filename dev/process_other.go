//go:build unix && !linux

package dev

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// processAttributes puts the child into its own process group. Only Linux can end it
// when we end; on other systems endLeftover does that at the next start.
func processAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// runsWith reports whether the process runs and has this argument.
func runsWith(pid int, argument string) bool {
	line, err := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(line), argument)
}
