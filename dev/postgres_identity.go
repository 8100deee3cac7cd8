package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// identity is the user that PostgreSQL runs as. PostgreSQL refuses to run as root, and
// other users often cannot enter root's folders.
type identity struct {
	// name is for messages.
	name string
	// apply makes a child run as this identity.
	apply func(*syscall.SysProcAttr)
	// owner must own the files; nil does not change their owner.
	owner *syscall.Credential
	// other is true if this user may lack access to our files.
	other bool
}

// ourselves is the identity of an ordinary user.
var ourselves = identity{name: "this user", apply: func(*syscall.SysProcAttr) {}}

// otherUsers are the users that root tries to run PostgreSQL as, in order of preference.
// PostgreSQL looks its user up by number, so the user must exist.
func otherUsers() []*user.User {
	var users []*user.User
	for _, name := range []string{postgresUser, "nobody", "daemon"} {
		if u, err := user.Lookup(name); err == nil && u.Uid != "0" {
			users = append(users, u)
		}
	}
	return users
}

// asUser runs children as another user, who must then own the data.
func asUser(u *user.User) (identity, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return identity{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return identity{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return identity{
		name:  u.Username,
		owner: credential,
		other: true,
		apply: func(a *syscall.SysProcAttr) { a.Credential = credential },
	}, nil
}

// prepare chooses the identity and the programs of the server, and makes sure that the
// identity can use dir.
func (o *PostgresOptions) prepare(ctx context.Context, dir string) (identity, string, error) {
	identities, binaries := o.identities, o.binaries
	if identities == nil {
		identities = possibleIdentities
	}
	if binaries == nil {
		binaries = func(ctx context.Context, asOther bool) (string, error) {
			return findPostgres(ctx, dir, o.Major, asOther)
		}
	}
	var failures []error
	for _, who := range identities() {
		bin, err := binaries(ctx, who.other)
		if err != nil {
			return identity{}, "", err
		}
		if err = who.canWork(ctx, bin, dir); err == nil {
			return who, bin, nil
		}
		failures = append(failures, fmt.Errorf("as %s: %w", who.name, err))
	}
	return identity{}, "", fmt.Errorf("it refuses to run as root, and no other user can run it in %s. "+
		"Run this as an ordinary user, use a folder that user postgres or nobody can reach (all its parents need o+x), "+
		"or allow user namespaces. Tried:\n%w", dir, errors.Join(failures...))
}

// canWork gives dir to the identity. Then it runs a program as this identity, to verify
// that the identity exists and can use the programs and dir.
func (i identity) canWork(ctx context.Context, bin, dir string) error {
	if i.owner != nil {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, int(i.owner.Uid), int(i.owner.Gid))
		})
		if err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `cd "$1" && test -w . && exec "$2" --version`, "sh", dir, filepath.Join(bin, "postgres"))
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", postgresEnv(), &syscall.SysProcAttr{}
	i.apply(cmd.SysProcAttr)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w %s", err, output)
	}
	return nil
}
