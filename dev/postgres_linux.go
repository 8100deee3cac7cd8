package dev

import (
	"os"
	"strconv"
	"syscall"
)

// possibleIdentities prefers, as root, a user namespace in which we are an
// unprivileged user: the kernel still takes the server for root where files are
// concerned, so it works below folders that are closed to everybody else.
// Containers often forbid namespaces; then it must be another user.
func possibleIdentities() []identity {
	if os.Geteuid() != 0 {
		return []identity{ourselves}
	}
	var found []identity
	users := otherUsers()
	for _, u := range users[:min(len(users), 1)] {
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil {
			found = append(found, inNamespace(uid, gid))
		}
	}
	for _, u := range users {
		if other, err := asUser(u); err == nil {
			found = append(found, other)
		}
	}
	return found
}

// inNamespace shows root to its children as an ordinary user. The files must be
// root's own: an earlier start may have given them to another user.
func inNamespace(uid, gid int) identity {
	ourUID, ourGID := os.Geteuid(), os.Getegid()
	return identity{
		name:  "root in a user namespace",
		owner: &syscall.Credential{Uid: uint32(ourUID), Gid: uint32(ourGID)},
		apply: func(a *syscall.SysProcAttr) {
			a.Cloneflags |= syscall.CLONE_NEWUSER
			a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: ourUID, Size: 1}}
			a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: ourGID, Size: 1}}
			a.GidMappingsEnableSetgroups = false
		},
	}
}
