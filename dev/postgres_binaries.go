package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// postgresFolders are the usual folders of PostgreSQL's programs outside the PATH.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/opt/local/lib/postgresql*/bin",
}

// oldestPostgres is the oldest major version that the schema supports.
const oldestPostgres = 15

// downloads are the versions that can be downloaded, by major number.
var downloads = map[int]embedded.PostgresVersion{15: embedded.V15, 16: embedded.V16, newestDownload: embedded.V17}

const newestDownload = 17

// findPostgres returns the folder of initdb and postgres: the folder on the PATH, else the
// newest of the usual folders, else a download. If dir already has data, the programs must
// have the major version of the data. Otherwise need is the required version, or 0.
func findPostgres(ctx context.Context, dir string, need int, asOther bool) (string, error) {
	if text, err := os.ReadFile(filepath.Join(dir, "data", "PG_VERSION")); err == nil {
		need, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			if bin := newestPostgres(ctx, []string{filepath.Dir(path)}, need); bin != "" {
				return bin, nil
			}
		}
	}
	var folders []string
	for _, pattern := range postgresFolders {
		found, _ := filepath.Glob(pattern) // the patterns are valid
		folders = append(folders, found...)
	}
	if bin := newestPostgres(ctx, folders, need); bin != "" {
		return bin, nil
	}
	version, known := downloads[cmp.Or(need, newestDownload)]
	if !known {
		return "", fmt.Errorf("%s needs version %d, which is not on this machine: "+
			"put its programs on the PATH, or remove the folder to start over", filepath.Join(dir, "data"), need)
	}
	return downloadPostgres(dir, version, asOther)
}

// newestPostgres returns the folder with the newest usable programs, or "". need is the
// required major version; 0 allows any.
func newestPostgres(ctx context.Context, folders []string, need int) string {
	best, bestMajor := "", oldestPostgres-1
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err != nil {
			continue
		}
		output, err := exec.CommandContext(ctx, filepath.Join(folder, "postgres"), "--version").Output()
		if err != nil {
			continue
		}
		if major := majorVersion(string(output)); major > bestMajor && (need == 0 || major == need) {
			best, bestMajor = folder, major
		}
	}
	return best
}

// majorVersion parses "postgres (PostgreSQL) 17.5 (Some Packager)"; 0 is unknown.
func majorVersion(text string) int {
	fields := strings.Fields(text)
	i := slices.Index(fields, "(PostgreSQL)")
	if i < 0 || i+1 >= len(fields) {
		return 0
	}
	digits := fields[i+1]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	major, _ := strconv.Atoi(digits)
	return major
}

// downloadPostgres downloads a version once. The user's cache keeps it for all
// checkouts, unless the server runs as another user, who may not have access.
//
// The library downloads and starts in a single call, and starts the server as root, which
// PostgreSQL refuses. So the library gets a data folder that looks initialized but is
// empty: it unpacks the programs and fails to start them. This package then starts the
// programs itself.
func downloadPostgres(dir string, version embedded.PostgresVersion, asOther bool) (string, error) {
	cache := filepath.Join(dir, "binaries")
	if user, err := os.UserCacheDir(); err == nil && !asOther {
		cache = filepath.Join(user, "dlq-manager")
	}
	home := filepath.Join(cache, "postgresql-"+string(version))
	if _, err := os.Stat(filepath.Join(home, "bin", "postgres")); err == nil {
		return filepath.Join(home, "bin"), nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "fetching-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := fetchPostgres(work, version); err != nil {
		return "", fmt.Errorf("no PostgreSQL %d or later on the PATH or in the usual folders, and the download failed; "+
			"install it (packages postgresql and postgresql-contrib) or put its programs on the PATH: %w", oldestPostgres, err)
	}
	// The rename is atomic. If another process was faster, it has created the same
	// folder.
	if err := os.Rename(filepath.Join(work, "home"), home); err != nil {
		if _, statErr := os.Stat(filepath.Join(home, "bin", "postgres")); statErr != nil {
			return "", err
		}
	}
	return filepath.Join(home, "bin"), nil
}

// fetchPostgres unpacks the programs into work/home.
func fetchPostgres(work string, version embedded.PostgresVersion) error {
	home, decoy := filepath.Join(work, "home"), filepath.Join(work, "decoy")
	if err := os.MkdirAll(decoy, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(decoy, "PG_VERSION"), fmt.Appendln(nil, majorVersion("(PostgreSQL) "+string(version))), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	err = embedded.NewDatabase(embedded.DefaultConfig().Version(version).Port(uint32(port)).Logger(nil).
		CachePath(work).RuntimePath(filepath.Join(work, "runtime")).BinariesPath(home).DataPath(decoy)).Start()
	if err == nil {
		return errors.New("embedded-postgres: the server started in a folder that has no database")
	}
	if !strings.HasPrefix(err.Error(), "could not start postgres") {
		return fmt.Errorf("embedded-postgres: %w", err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(home, "bin", name)); err != nil {
			return fmt.Errorf("embedded-postgres: %w", err)
		}
	}
	return nil
}
