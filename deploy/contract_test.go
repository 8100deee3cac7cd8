//go:build release

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// contractCheck replaces a text in the contract, and compares the result with the contract of the last commit.
func contractCheck(t *testing.T, dir, from, old, replacement string) (string, error) {
	t.Helper()
	contract := filepath.Join(dir, "api/openapi.yaml")
	output, err := exec.CommandContext(t.Context(), "git", "-C", dir, "show", "HEAD:api/openapi.yaml").Output()
	require.NoError(t, err)
	text := string(output)
	require.Contains(t, text, old)
	require.NoError(t, os.WriteFile(contract, []byte(strings.Replace(text, old, replacement, 1)), 0o600))
	command := exec.CommandContext(t.Context(), "dev/contract.sh", chartTool(t, ".build/bin", "oasdiff", "OASDIFF_VERSION"), from)
	command.Dir = dir
	output, err = command.CombinedOutput()
	return string(output), err
}

func TestTheContractCheckFindsWhatBreaksClients(t *testing.T) {
	t.Parallel()
	dir := clone(t, "## Unreleased\n")
	const field = "        subject: {type: string, description: The subject of the token"

	said, err := contractCheck(t, dir, "HEAD", field, "        nickname: {type: string}\n"+field)
	require.NoError(t, err, said)
	for change, texts := range map[string][2]string{
		"removed the required property `subject` from the response": {field, "        nickname: {type: string, description: A nickname"},
		"the response property `subject` became nullable":           {field, strings.Replace(field, "string", "[string, 'null']", 1)},
		"API path removed without deprecation":                      {"\n  /api/v1/me:\n", "\n  /api/v1/you:\n"},
	} {
		said, err := contractCheck(t, dir, "HEAD", texts[0], texts[1])
		require.Error(t, err)
		require.Contains(t, said, change)
		require.Contains(t, said, "/api/v1/me")

		accepted := filepath.Join(dir, "api/breaking-accepted.txt")
		before := read(t, accepted)
		require.NoError(t, os.WriteFile(accepted, []byte(before+said), 0o600))
		said, err = contractCheck(t, dir, "HEAD", texts[0], texts[1])
		require.NoError(t, err, "an accepted change: %s", said)
		require.NoError(t, os.WriteFile(accepted, []byte(before), 0o600))
	}

	for from, reason := range map[string]string{"": "name the commit to compare with", "v0.0.0": "there is no api/openapi.yaml in 'v0.0.0'"} {
		said, err := contractCheck(t, dir, from, field, field)
		require.Error(t, err)
		require.Contains(t, said, reason)
	}
}
