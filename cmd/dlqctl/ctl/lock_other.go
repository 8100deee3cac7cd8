//go:build !unix

package ctl

import "os"

// tryLock excludes no process, since this system has no flock.
func tryLock(*os.File) (bool, error) { return true, nil }
