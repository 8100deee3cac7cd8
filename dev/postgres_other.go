//go:build unix && !linux

package dev

import "os"

// possibleIdentities returns the other users if this process is root, and otherwise this user.
func possibleIdentities() []identity {
	if os.Geteuid() != 0 {
		return []identity{ourselves}
	}
	var found []identity
	for _, u := range otherUsers() {
		if other, err := asUser(u); err == nil {
			found = append(found, other)
		}
	}
	return found
}
