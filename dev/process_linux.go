package dev

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// processAttributes puts the child into its own process group and ends it when we end.
func processAttributes(onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath}
}

// runsWith reports whether the process runs and has this argument.
func runsWith(pid int, argument string) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(line, []byte{0}), func(a []byte) bool { return string(a) == argument })
}
