package dbtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dlqmanager/dev"
)

// server is the server of this test program. The first test that needs it starts it.
var server struct {
	sync.Mutex
	inMain  bool
	started *dev.Postgres
	dir     string
	err     error
}

// Main runs the package's tests and then stops the server, if one was started.
func Main(m *testing.M) int {
	server.Lock()
	server.inMain = true
	server.Unlock()
	code := m.Run()
	if err := errors.Join(dropAll(), stop()); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		return max(code, 1)
	}
	return code
}

// serverURL is a connection string to the server's own database. It starts the server when
// there is none. A failed start is not repeated.
func serverURL() (string, error) {
	if given, err := externalServer(); given != "" || err != nil {
		return given, err
	}
	server.Lock()
	defer server.Unlock()
	if !server.inMain {
		return "", errors.New("without dbtest.Main nothing would stop the server: add func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }")
	}
	if server.started == nil && server.err == nil {
		server.err = start()
	}
	if server.err != nil {
		return "", server.err
	}
	return server.started.URL("postgres"), nil
}

// versionVariable chooses the major version of the server.
const versionVariable = "DLQ_TEST_POSTGRES_VERSION"

// start starts a server without durability: its data need not survive a crash.
func start() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	removeAbandoned(ctx)
	dir, err := os.MkdirTemp(parentFolder(), fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
	if err != nil {
		return err
	}
	server.dir = dir
	// The server may run as another user. The folder has no secrets.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	major, err := strconv.Atoi(cmp.Or(os.Getenv(versionVariable), "0"))
	if err != nil {
		return fmt.Errorf("%s must be a major version of PostgreSQL, such as 17", versionVariable)
	}
	server.started, err = dev.StartPostgres(ctx, dev.PostgresOptions{Dir: dir, Major: major, Settings: map[string]string{
		"fsync":              "off",
		"synchronous_commit": "off",
		"full_page_writes":   "off",
		"autovacuum":         "off",
		"max_connections":    "300",
		"max_wal_size":       "1GB",
		"log_min_messages":   "fatal",
	}})
	return err
}

func stop() error {
	server.Lock()
	defer server.Unlock()
	if server.started != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.started.Stop(ctx); err != nil {
			return err
		}
	}
	if server.dir == "" {
		return nil
	}
	return os.RemoveAll(server.dir)
}

const folderPrefix = "dlq-postgres-"

// sharedMemory is a file system in memory on Linux. To copy a database there takes an eighth of the
// time, since each copy has hundreds of files.
const sharedMemory = "/dev/shm"

// roomInMemory is the free space, in bytes, without which sharedMemory is not used. It is twice as much
// as the tests of one package use at most.
const roomInMemory = 8 << 30

// parentFolder is where the server's folder is.
func parentFolder() string {
	var room syscall.Statfs_t
	if syscall.Statfs(sharedMemory, &room) == nil && room.Bavail*uint64(room.Bsize) >= roomInMemory {
		return sharedMemory
	}
	return os.TempDir()
}

// removeAbandoned deletes the folders of test programs that were killed. A folder's name
// contains the process id.
func removeAbandoned(ctx context.Context) {
	inMemory, _ := filepath.Glob(filepath.Join(sharedMemory, folderPrefix+"*"))
	onDisk, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, folder := range slices.Concat(inMemory, onDisk) {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		pid, err := strconv.Atoi(id)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = dev.RemovePostgres(ctx, folder) // the next test program tries again
		}
	}
}
