package client_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProgramOfAnotherModuleNeedsTheStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir = "example"
		output, err := command.CombinedOutput()
		require.NoError(t, err, string(output))
		return string(output)
	}
	run("vet", ".")
	imported := strings.Fields(run("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "."))
	require.Equal(t, []string{"dlqmanager/client", "example.com/dlqclient"}, imported)
}
