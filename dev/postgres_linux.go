package dev

import (
	"os"
	"strconv"
	"syscall"
)

// possibleIdentities prefers, as root, a user namespace in which we are an unprivileged
// user. For access to files the kernel still treats the server as root, so it can use
// folders that are closed to other users. Containers often forbid namespaces; then
// another user is needed.
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

// inNamespace runs children as root, in a user namespace that shows them root as an ordinary user.
// Root must own the files, which an earlier start may have given to another user.
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
