package app

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// limitMemory sets Go's memory limit, unless GOMEMLIMIT is set. The limit is nine tenths of the limit of the process's cgroup,
// or fallback if the cgroup has no limit. The fallback math.MaxInt64 leaves the limit as another part of this process has set
// it. Near the limit the garbage collector runs more often. limitMemory returns the limit in bytes.
func limitMemory(fallback int64) int64 {
	if os.Getenv("GOMEMLIMIT") == "" {
		if limit := cgroupLimit(os.DirFS("/")); limit < math.MaxInt64 {
			fallback = limit / 10 * 9
		}
		if fallback < math.MaxInt64 {
			debug.SetMemoryLimit(fallback)
		}
	}
	return debug.SetMemoryLimit(-1)
}

// cgroupLimit is the lowest memory limit of the process's cgroup and of its parents, in bytes. Inside a container the path of
// the cgroup may not exist, and the container's own cgroup is at the root. Without a limit the result is math.MaxInt64.
func cgroupLimit(root fs.FS) int64 {
	lowest := int64(math.MaxInt64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		folder, file := "sys/fs/cgroup", "memory.max"
		switch {
		case len(fields) < 3:
			continue
		case slices.Contains(strings.Split(fields[1], ","), "memory"): // cgroup version 1
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		for group := path.Join("/", fields[2]); ; group = path.Dir(group) {
			text, _ := fs.ReadFile(root, path.Join(folder, group, file))
			limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && limit > 0 && limit < 1<<60 { // cgroup version 1 writes a large number for no limit
				lowest = min(lowest, limit)
			}
			if group == "/" {
				break
			}
		}
	}
	return lowest
}

// answerMemory is the budget for answers in bytes. By default it is half of the memory limit.
func answerMemory(configured, limit int64) int64 {
	const least, unlimited = 80 << 20, 256 << 20 // half of the least is enough for a list with masking
	switch {
	case configured > 0:
		return configured
	case limit == math.MaxInt64:
		return unlimited
	default:
		return max(limit/2, least)
	}
}
