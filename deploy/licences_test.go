package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// licences runs dev/licences.sh. report is the output of the tool that the script calls.
func licences(t *testing.T, recorded, report string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docs/licences.csv"), []byte(recorded), 0o600))
	tool := filepath.Join(dir, "go-licenses")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\necho '"+report+"'\n"), 0o700))
	script, err := filepath.Abs("../dev/licences.sh")
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), script, tool)
	command.Dir = dir
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestLicencesThatAreNotAllowedAreRefused(t *testing.T) {
	t.Parallel()
	const recorded = "package,licence,file\na.org/b,MIT,x/LICENSE\n"
	output, err := licences(t, recorded, "a.org/b,MIT,/mod/a.org/b@v1.2.3/x/LICENSE")
	require.NoError(t, err, output)
	for report, refusal := range map[string]string{
		"a.org/b,MIT,/mod/a.org/b@v1.2.3/x/LICENSE\na.org/c,AGPL-3.0,/mod/a.org/c@v1.0.0/COPYING": "the licence AGPL-3.0 of a.org/c is not allowed: COPYING",
		"a.org/b,Unknown,":                          "the licence Unknown of a.org/b is not allowed",
		"a.org/b,ISC,/mod/a.org/b@v1.2.3/x/LICENSE": "docs/licences.csv does not match the linked packages",
	} {
		output, err := licences(t, recorded, report)
		require.Error(t, err, report)
		require.Contains(t, output, refusal)
	}
}
