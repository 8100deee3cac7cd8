package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/dlq"
)

func hashOf(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(hash[:])
}

// tokensWith reads a file with one token. The hash of the token replaces %s in the text.
func tokensWith(t *testing.T, text string) (*Tokens, string) {
	t.Helper()
	token := NewToken()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, text, hashOf(token)), 0o600))
	tokens, err := NewTokens(path, zap.NewNop())
	require.NoError(t, err)
	return tokens, token
}

func TestAStaticTokenHasItsGrants(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"short form": "- {name: ci, hash: %s, role: operator, topics: ['orders.*']}",
		"grants":     "- name: ci\n  hash: %s\n  grants:\n  - {role: operator, topics: ['orders.*']}\n  - role: viewer\n",
	} {
		tokens, token := tokensWith(t, text)
		principal, err := tokens.Authenticate(t.Context(), token)
		require.NoError(t, err, name)
		require.Equal(t, "ci", principal.Subject)
		require.Equal(t, "token", principal.Method)
		require.True(t, principal.MayOn(dlq.PermMessageRetry, "orders.dlq"))
		require.False(t, principal.MayOn(dlq.PermMessageRetry, "payments.dlq"))
		require.Equal(t, name == "grants", principal.MayOn(dlq.PermMessageRead, "payments.dlq"))
	}
}

func TestOtherTextsThanTheTokenAreRefused(t *testing.T) {
	t.Parallel()
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer}")
	for other, want := range map[string]Reason{
		NewToken(): ReasonUnknown, token + " ": ReasonUnknown, token[:len(token)-1]: ReasonUnknown, tokenPrefix: ReasonUnknown,
		hashOf(token): ReasonMalformed, token[len(tokenPrefix):]: ReasonMalformed, strings.ToUpper(token): ReasonMalformed, "": ReasonMissing,
	} {
		_, err := tokens.Authenticate(t.Context(), other)
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, want, refused.Reason)
		require.NotContains(t, err.Error(), token)
	}
}

func TestAStaticTokenExpires(t *testing.T) {
	t.Parallel()
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer, expires: 2030-01-01T00:00:00Z}")
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	tokens.now = func() time.Time { return end.Add(-time.Nanosecond) }
	_, err := tokens.Authenticate(t.Context(), token)
	require.NoError(t, err)
	tokens.now = func() time.Time { return end }
	_, err = tokens.Authenticate(t.Context(), token)
	require.EqualError(t, err, "the token has expired")

	tokens, token = tokensWith(t, "- {name: ci, hash: %s, role: viewer, expires: none}")
	tokens.now = func() time.Time { return end.AddDate(500, 0, 0) }
	_, err = tokens.Authenticate(t.Context(), token)
	require.NoError(t, err)
}

func TestAChangeOfTheFileIsUsedOnceTwoReadingsAgree(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer}")
	tokens.log = zap.New(core)
	c := newClock()
	tokens.now = c.now
	accepts := func() bool {
		_, err := tokens.Authenticate(t.Context(), token)
		return err == nil
	}
	replace := func(text string) { require.NoError(t, os.WriteFile(tokens.path, []byte(text), 0o600)) }
	valid, err := os.ReadFile(tokens.path)
	require.NoError(t, err)

	c.advance(time.Hour)
	require.True(t, accepts())
	replace("[]")
	require.True(t, accepts(), "it was read just now")
	c.advance(tokensFresh)
	require.False(t, accepts(), "it was removed, and this is the first request since")
	replace(string(valid))
	c.advance(tokensFresh)
	require.True(t, accepts())
	require.NoError(t, tokens.Check(t.Context()))

	logs.TakeAll()
	breakIt := map[string]func(){
		"malformed": func() { replace("- {name: ci") },
		"empty":     func() { replace("") },
		"gone":      func() { require.NoError(t, os.Remove(tokens.path)) },
	}
	for name, change := range breakIt {
		change()
		for range 3 {
			c.advance(tokensFresh)
			require.True(t, accepts(), "%s: the earlier tokens remain", name)
		}
		var notice *dlq.NoticeError
		require.ErrorAs(t, tokens.Check(t.Context()), &notice, name)
		require.False(t, notice.Unavailable)
		require.NotContains(t, notice.Notice, tokens.path)
		require.Len(t, logs.FilterLevelExact(zapcore.ErrorLevel).TakeAll(), 1, "%s: logged once", name)
		logs.TakeAll()
		replace(string(valid))
		c.advance(tokensFresh)
		require.NoError(t, tokens.Check(t.Context()), name)
		require.Len(t, logs.TakeAll(), 1, "%s: it is valid again", name)
	}
}

// An entry that is cut after its role is valid, but has no limits.
func TestAFileThatIsBeingWrittenWidensNoGrant(t *testing.T) {
	t.Parallel()
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer, topics: [orders.dlq]}")
	c := newClock()
	tokens.now = c.now
	whole, err := os.ReadFile(tokens.path)
	require.NoError(t, err)
	torn, _, _ := strings.Cut(string(whole), ", topics")
	write := func(text string) { require.NoError(t, os.WriteFile(tokens.path, []byte(text), 0o600)) }
	for _, text := range []string{torn + "}", string(whole) + "\n", torn + "}", string(whole), torn + "}"} {
		write(text)
		tokens.pause = func() { write(text + " # written further") }
		c.advance(tokensFresh)
		principal, err := tokens.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.False(t, principal.MayOn(dlq.PermMessageRead, "secret.dlq"), text)
	}
}

func TestAPipeInPlaceOfTheFileDoesNotHang(t *testing.T) {
	t.Parallel()
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer}")
	c := newClock()
	tokens.now = c.now
	require.NoError(t, os.Remove(tokens.path))
	require.NoError(t, syscall.Mkfifo(tokens.path, 0o600))
	c.advance(tokensFresh)
	_, err := tokens.Authenticate(t.Context(), token)
	require.NoError(t, err, "the earlier tokens remain")
	require.Error(t, tokens.Check(t.Context()))
}

func TestTheStartFailsWithoutAValidFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	_, err := NewTokens(path, zap.NewNop())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, []byte("- {name: ci}"), 0o600))
	_, err = NewTokens(path, zap.NewNop())
	require.ErrorContains(t, err, path+": line 1: hash must be")
}

func TestAmbiguousFilesAreRefusedWithTheLine(t *testing.T) {
	t.Parallel()
	hash, other := hashOf("a"), hashOf("b")
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "the file is empty"},
		"only a comment":     {"# none", "the file is empty"},
		"null":               {"~", "the file has no entries"},
		"a section":          {"tokens: []", "cannot unmarshal"},
		"text":               {"dlqm_abc", "cannot unmarshal"},
		"second document":    {"[]\n---\n[]", "second YAML document"},
		"an entry of text":   {"- a", "line 1: must be a section"},
		"unknown key":        {"- name: a\n  hash: " + hash + "\n  rolle: admin", `line 3: unknown key "rolle"`},
		"unknown in grants":  {"- name: a\n  hash: " + hash + "\n  grants:\n  - role: admin\n    topic: [x]", `line 5: unknown key "topic"`},
		"hidden in an alias": {"- &a {name: a, hash: " + hash + ", role: admin}\n- *a", "line 2: must be a section"},
		"merged":             {"- &a {name: a, hash: " + hash + ", role: admin}\n- {<<: *a, name: b}", `unknown key "<<"`},
		"key twice":          {"- {name: a, hash: " + hash + ", role: viewer, role: admin}", "already defined"},
		"no name":            {"- {hash: " + hash + ", role: viewer}", "line 1: name is required"},
		"name with a break":  {"- {name: \"a\\nb\", hash: " + hash + ", role: viewer}", "control characters"},
		"the token itself":   {"- {name: a, hash: dlqm_abc, role: viewer}", "hash must be sha256:"},
		"short hash":         {"- {name: a, hash: " + hash[:70] + ", role: viewer}", "hash must be"},
		"long hash":          {"- {name: a, hash: " + hash + "00, role: viewer}", "hash must be"},
		"other algorithm":    {"- {name: a, hash: md5:" + hash[7:] + ", role: viewer}", "hash must be"},
		"no role":            {"- {name: a, hash: " + hash + "}", "role is required"},
		"empty grants":       {"- {name: a, hash: " + hash + ", grants: []}", "role is required"},
		"topics without":     {"- {name: a, hash: " + hash + ", topics: [x]}", `unknown role ""`},
		"unknown role":       {"- {name: a, hash: " + hash + ", role: root}", `unknown role "root"`},
		"role and grants":    {"- {name: a, hash: " + hash + ", role: viewer, grants: [{role: admin}]}", "use either grants"},
		"no topics":          {"- {name: a, hash: " + hash + ", role: viewer, topics: []}", "topics is empty"},
		"topics null":        {"- {name: a, hash: " + hash + ", role: viewer, topics: }", "topics is empty"},
		"topics of a grant":  {"- {name: a, hash: " + hash + ", grants: [{role: viewer, topics: []}]}", "topics is empty"},
		"topics as text":     {"- {name: a, hash: " + hash + ", role: viewer, topics: x}", "cannot unmarshal"},
		"empty topic":        {"- {name: a, hash: " + hash + ", role: viewer, topics: ['']}", "is not a pattern"},
		"topic null":         {"- {name: a, hash: " + hash + ", role: viewer, topics: [~]}", "topics is empty"},
		"expires on a day":   {"- {name: a, hash: " + hash + ", role: viewer, expires: 2030-01-01}", "expires must be a time"},
		"expires in days":    {"- {name: a, hash: " + hash + ", role: viewer, expires: 90d}", "expires must be a time"},
		"many topics":        {"- {name: a, hash: " + hash + ", role: viewer, topics: [x" + strings.Repeat(",orders.dlq", 2000) + "]}", "line 1: topics make an expression of"},
		"many in grants":     {"- {name: a, hash: " + hash + ", grants: [" + grantOf("a") + "," + grantOf("b") + "]}", "line 1: grants have topics that together"},
		"name twice":         {"- {name: a, hash: " + hash + ", role: viewer}\n- {name: a, hash: " + other + ", role: viewer}", `line 2: the name "a" occurs twice`},
		"hash twice":         {"- {name: a, hash: " + hash + ", role: viewer}\n- {name: b, hash: " + hash + ", role: admin}", `line 2: "a" and "b" have the same hash`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseTokens([]byte(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// grantOf is a grant with the greatest allowed length.
func grantOf(prefix string) string {
	topics := make([]string, 1600)
	for i := range topics {
		topics[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return "{role: viewer, topics: [" + strings.Join(topics, ",") + "]}"
}

func TestNewEntriesAreAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	entry := func(name string) (string, []byte) {
		token := NewToken()
		text, err := Entry{Name: name, Role: dlq.RoleOperator, Topics: []string{"orders.*", "*.dlq"}, Expires: end}.Marshal(token)
		require.NoError(t, err)
		require.NotContains(t, string(text), token)
		return token, text
	}
	first, text := entry("true") // YAML must quote this name
	require.NoError(t, Append(path, text))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, os.WriteFile(path, append([]byte("# kept\n"), text[:len(text)-1]...), 0o600)) // no line break at the end
	second, more := entry("second")
	require.NoError(t, Append(path, more))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), "# kept\n")
	require.Contains(t, string(data), "expires: \"2029-12-31T23:00:00Z\"")

	tokens, err := NewTokens(path, zap.NewNop())
	require.NoError(t, err)
	for token, name := range map[string]string{first: "true", second: "second"} {
		principal, err := tokens.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, name, principal.Subject)
		require.Equal(t, []string{"orders.*", "*.dlq"}, principal.Grants[0].Topics)
	}

	_, again := entry("second")
	require.ErrorContains(t, Append(path, again), `the name "second" occurs twice`)
	unchanged, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, unchanged)

	require.NoError(t, os.WriteFile(path, []byte("[]\n"), 0o600))
	require.NoError(t, Append(path, more), "after a list without entries")
	require.NoError(t, os.WriteFile(path, []byte("nonsense: 1\n"), 0o600))
	require.ErrorContains(t, Append(path, more), path)
}

func TestNewTokensAreRandomAndRecognisable(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^dlqm_[A-Za-z0-9_-]{43}$`, NewToken())
	require.NotEqual(t, NewToken(), NewToken())
	_, err := Entry{Name: "a", Role: "root"}.Marshal(NewToken())
	require.ErrorContains(t, err, "unknown role")
	_, err = Entry{Role: dlq.RoleAdmin}.Marshal(NewToken())
	require.ErrorContains(t, err, "name is required")
}

func TestTheMetricIsTheNextExpiryOfATokenThatIsStillValid(t *testing.T) {
	t.Parallel()
	tokens, _ := tokensWith(t, "- {name: old, hash: %s, role: viewer, expires: 2026-01-01T00:00:00Z}\n"+
		"- {name: ci, hash: '"+hashOf(NewToken())+"', role: viewer, expires: 2026-03-01T00:00:00Z}\n"+
		"- {name: ops, hash: '"+hashOf(NewToken())+"', role: viewer, expires: 2026-02-01T00:00:00Z}\n"+
		"- {name: ever, hash: '"+hashOf(NewToken())+"', role: viewer}")
	at := func(day time.Time) { tokens.now = func() time.Time { return day } }
	at(time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC))
	require.InDelta(t, float64(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC).Unix()), testutil.ToFloat64(tokens.Expiry()), 0)
	at(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	require.Zero(t, testutil.CollectAndCount(tokens.Expiry()))
}
