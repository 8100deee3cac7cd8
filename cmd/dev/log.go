package main

import (
	"os"
	"path/filepath"
)

// openLog opens the file that the programs log to. The terminal shows only the
// progress: two streams of JSON would hide it.
func openLog(dir string) (*os.File, error) {
	name := filepath.Join(dir, "dlq-manager.log")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
