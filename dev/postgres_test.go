package dev

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// closedDir is a folder that only we may enter, like many checkouts of root.
func closedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return filepath.Join(dir, "postgres")
}

func startPostgres(t *testing.T, o PostgresOptions) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { stopPostgres(t, p) })
	return p
}

func stopPostgres(t *testing.T, p *Postgres) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, p.Stop(ctx))
}

// keep commits a row that a later ask must find.
func keep(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `CREATE TABLE t AS SELECT 'kept' AS v`)
	require.NoError(t, err)
}

// ask runs one statement that returns a string.
func ask(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var answer string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&answer))
	return answer
}

func TestPostgresKeepsItsDataOverRestarts(t *testing.T) {
	t.Parallel()
	dir := closedDir(t)
	p := startPostgres(t, PostgresOptions{Dir: dir, Settings: map[string]string{"work_mem": "5MB"}})
	require.NoError(t, p.EnsureDatabase(t.Context(), "dlq"))
	require.NoError(t, p.EnsureDatabase(t.Context(), "dlq"), "a database that exists is no error")
	keep(t, p.URL("dlq"))
	require.Equal(t, "5MB", ask(t, p.URL("dlq"), `SHOW work_mem`))
	require.Equal(t, "UTF8 C", ask(t, p.URL("dlq"), `SELECT pg_encoding_to_char(encoding) || ' ' || datcollate FROM pg_database WHERE datname = 'dlq'`))
	require.Equal(t, p.Version, strings.Fields(ask(t, p.URL("dlq"), `SHOW server_version`))[0])
	stopPostgres(t, p)
	stopPostgres(t, p)
	select {
	case <-p.Done():
	default:
		require.Fail(t, "Done is not closed after Stop")
	}

	again := startPostgres(t, PostgresOptions{Dir: dir})
	require.Equal(t, "kept", ask(t, again.URL("dlq"), `SELECT v FROM t`))
}

func TestPostgresListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, PostgresOptions{Dir: closedDir(t)})
	require.Equal(t, loopback, ask(t, p.URL("postgres"), `SHOW listen_addresses`))
	require.Empty(t, ask(t, p.URL("postgres"), `SHOW unix_socket_directories`))
}

func TestPostgresStopsALeftoverServer(t *testing.T) {
	t.Parallel()
	dir := closedDir(t)
	first := startPostgres(t, PostgresOptions{Dir: dir})
	keep(t, first.URL("postgres"))
	// After a kill the lock is free and the server still runs.
	first.lock.release()
	first.lock = nil

	second := startPostgres(t, PostgresOptions{Dir: dir, Port: first.Port})
	require.Equal(t, "kept", ask(t, second.URL("postgres"), `SELECT v FROM t`))
	require.Eventually(t, func() bool {
		select {
		case <-first.Done():
			return true
		default:
			return false
		}
	}, 10*time.Second, 10*time.Millisecond, "the leftover server still runs")
}

// TestPostgresAfterTheParentWasKilled runs this test binary as the parent, so that
// there is a real process to kill.
func TestPostgresAfterTheParentWasKilled(t *testing.T) {
	const parentOf = "DLQ_TEST_POSTGRES_PARENT_OF"
	if dir := os.Getenv(parentOf); dir != "" {
		p, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir})
		require.NoError(t, err)
		keep(t, p.URL("postgres"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ready"), []byte(strconv.Itoa(p.Port)), 0o600))
		select {} // until killed
	}
	t.Parallel()
	dir := closedDir(t)
	parent := exec.Command(os.Args[0], "-test.run=^TestPostgresAfterTheParentWasKilled$")
	parent.Env = append(os.Environ(), parentOf+"="+dir)
	require.NoError(t, parent.Start())
	var port int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "ready"))
		port, _ = strconv.Atoi(string(text))
		return err == nil && port != 0
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()

	p := startPostgres(t, PostgresOptions{Dir: dir, Port: port})
	require.Equal(t, "kept", ask(t, p.URL("postgres"), `SELECT v FROM t`))
}

func TestPostgresIgnoresAStalePidFile(t *testing.T) {
	t.Parallel()
	dir := closedDir(t)
	stopPostgres(t, startPostgres(t, PostgresOptions{Dir: dir}))
	// The pid belongs to this test: the test must survive, and the start must succeed.
	stale := strconv.Itoa(os.Getpid()) + "\n" + filepath.Join(dir, "data") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o600))
	p := startPostgres(t, PostgresOptions{Dir: dir})
	require.Equal(t, "1", ask(t, p.URL("postgres"), `SELECT '1'`))
}

func TestRemovePostgresStopsTheServerInTheFolder(t *testing.T) {
	t.Parallel()
	dir := closedDir(t)
	p := startPostgres(t, PostgresOptions{Dir: dir})
	require.ErrorIs(t, RemovePostgres(t.Context(), dir), errLocked, "a living program uses it")
	p.lock.release()
	p.lock = nil
	require.NoError(t, RemovePostgres(t.Context(), dir))
	require.NoDirExists(t, dir)
	require.Eventually(t, func() bool {
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	}, 10*time.Second, 10*time.Millisecond, "the server still runs")
}

func TestPostgresNamesThePortThatIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", address(0))
	require.NoError(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port

	_, err = StartPostgres(t.Context(), PostgresOptions{Dir: closedDir(t), Port: port, PortSetting: "DLQ_DEV_POSTGRES_PORT"})
	var inUse *PortInUseError
	require.ErrorAs(t, err, &inUse)
	require.ErrorContains(t, err, strconv.Itoa(port))
	require.ErrorContains(t, err, "DLQ_DEV_POSTGRES_PORT")
}

func TestPostgresRefusesAFolderThatAnotherProgramUses(t *testing.T) {
	t.Parallel()
	dir := closedDir(t)
	p := startPostgres(t, PostgresOptions{Dir: dir})
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir})
	require.ErrorIs(t, err, errLocked)
	require.Equal(t, "1", ask(t, p.URL("postgres"), `SELECT '1'`), "the first server is left alone")
}

func TestPostgresSaysWhyItDidNotStart(t *testing.T) {
	t.Parallel()
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: closedDir(t), Settings: map[string]string{"shared_buffers": "many"}})
	require.ErrorContains(t, err, `invalid value for parameter "shared_buffers"`)
}

// asOthersOnly simulates a machine without user namespaces.
func asOthersOnly() []identity {
	var found []identity
	for _, u := range otherUsers() {
		if other, err := asUser(u); err == nil {
			found = append(found, other)
		}
	}
	return found
}

func TestPostgresRunsAsAnotherUserWithoutNamespaces(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir, err := os.MkdirTemp("/tmp", "postgres-") //nolint:usetesting // t.TempDir is inside a folder that other users cannot enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	// The files change their owner with the identity, in either direction.
	for _, identities := range []func() []identity{asOthersOnly, asOthersOnly, nil, asOthersOnly} {
		p := startPostgres(t, PostgresOptions{Dir: filepath.Join(dir, "server"), identities: identities})
		require.Equal(t, "1", ask(t, p.URL("postgres"), `SELECT '1'`))
		stopPostgres(t, p)
	}
}

func TestPostgresNamesTheRemedyWhenNoUserCanUseTheFolder(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: closedDir(t), identities: asOthersOnly})
	require.ErrorContains(t, err, "refuses to run as root")
	require.ErrorContains(t, err, "o+x")
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root has to become another user, and only root can")
	}
}

func TestMajorVersionParsesVersionsOfPackages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"postgres (PostgreSQL) 17.5":                           17,
		"postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)": 15,
		"postgres (PostgreSQL) 18beta1":                        18,
		"postgres (PostgreSQL)":                                0,
		"something else":                                       0,
	} {
		require.Equal(t, want, majorVersion(text), text)
	}
}

func TestPostgresStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := StartPostgres(ctx, PostgresOptions{Dir: closedDir(t)})
	require.Error(t, err)
	require.True(t, errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "context canceled"), err)
}
