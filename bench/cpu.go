package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is the number of clock ticks in a second of processor time, on every Linux that
// Go supports.
const ticks = 100

// postgresCPU is the processor time that the server's processes have used so far, including the processes
// of closed connections. A busy machine disturbs processor time far less than elapsed time. The result is 0
// on systems without /proc.
func (b *bench) postgresCPU() time.Duration {
	text, err := os.ReadFile(filepath.Join(b.dir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	server, _, _ := strings.Cut(string(text), "\n")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var used int64
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		// The process name ends at the last bracket, and may contain spaces and brackets.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		switch {
		case filepath.Base(filepath.Dir(path)) == server:
			used += sumOf(fields[11:15]) // the times of the server and of its ended children
		case fields[1] == server:
			used += sumOf(fields[11:13])
		}
	}
	return time.Duration(used) * time.Second / ticks
}

func sumOf(fields []string) (sum int64) {
	for _, field := range fields {
		n, _ := strconv.ParseInt(field, 10, 64) // the fields are always numbers
		sum += n
	}
	return sum
}
