package deploy_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestTheWorkflowRunsTheStepsOfCIOnEachPostgreSQL(t *testing.T) {
	t.Parallel()
	script := read(t, "../.ci/run")
	all := regexp.MustCompile(`steps="\$\{\*:-(.*)\}"`).FindStringSubmatch(script)
	require.NotNil(t, all)
	var functions []string
	for _, match := range regexp.MustCompile(`(?m)^step_(\w+)\(\)`).FindAllStringSubmatch(script, -1) {
		functions = append(functions, match[1])
	}
	require.Equal(t, functions, strings.Fields(all[1]))

	var workflow struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix map[string][]string }
			Env      map[string]string
			Steps    []struct{ Run string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "../.github/workflows/ci.yaml")), &workflow))
	require.Len(t, workflow.Jobs, 1)
	job := workflow.Jobs["steps"]
	var run []string
	for _, step := range job.Steps {
		if _, name, found := strings.Cut(step.Run, "bash .ci/run "); found {
			run = append(run, name)
		}
	}
	require.Equal(t, functions, run)

	versions := regexp.MustCompile(`(?m)^POSTGRES_VERSIONS \?= (.*)$`).FindStringSubmatch(read(t, "../Makefile"))
	require.NotNil(t, versions)
	require.Equal(t, strings.Fields(versions[1]), job.Strategy.Matrix["postgres"])
	require.Equal(t, map[string]string{"DLQ_TEST_POSTGRES_VERSION": "${{ matrix.postgres }}"}, job.Env)
}
