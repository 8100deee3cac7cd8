package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"dlqmanager/cmd/dlqctl/ctl"
)

func TestEveryCommandHasAPageWithTheDateOfTheRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, run([]string{dir, "v9.9.9", "981173106"}))
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		require.NoError(t, err)
		require.Contains(t, string(page), `"Feb 2001" "dlqctl v9.9.9" "DLQ manager"`)
		require.NotContains(t, string(page), "Auto generated", "which has the day of the build")
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(ctl.Command())
}

func TestTheGeneratorSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, run(nil), "give a folder, a version and the seconds since 1970")
	require.ErrorContains(t, run([]string{t.TempDir(), "v9.9.9", "today"}), "the date must be seconds since 1970")
}

func TestTheGeneratorIsNotInTheProgram(t *testing.T) {
	t.Parallel()
	packages, err := exec.Command("go", "list", "-deps", "dlqmanager/cmd/dlqctl").Output()
	require.NoError(t, err)
	require.Contains(t, string(packages), "github.com/spf13/cobra\n")
	require.NotContains(t, string(packages), "github.com/spf13/cobra/doc")
}
