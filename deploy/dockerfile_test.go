package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stage is a FROM of the Dockerfile with its instructions. A line that continues the line before is joined to it.
type stage struct {
	from, name string
	lines      []string
}

func dockerfile(t *testing.T) []stage {
	t.Helper()
	var stages []stage
	text := strings.ReplaceAll(read(t, "../Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case fields[0] == "FROM":
			require.Len(t, fields, 4, "FROM image AS name: %s", line)
			stages = append(stages, stage{from: fields[1], name: fields[3]})
		default:
			require.NotEmpty(t, stages, line)
			last := &stages[len(stages)-1]
			last.lines = append(last.lines, strings.Join(fields, " "))
		}
	}
	return stages
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func named(t *testing.T, stages []stage, name string) stage {
	t.Helper()
	i := slices.IndexFunc(stages, func(s stage) bool { return s.name == name })
	require.GreaterOrEqual(t, i, 0, "stage %s", name)
	return stages[i]
}

func TestImagesAreBuiltWithTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)(\.\d+)?$`).FindStringSubmatch(read(t, "../go.mod"))
	require.NotNil(t, wanted)
	build := named(t, dockerfile(t), "build")
	image := regexp.MustCompile(`^golang:(\d+\.\d+)\.\d+-[a-z]+@sha256:[0-9a-f]{64}$`).FindStringSubmatch(build.from)
	require.NotNil(t, image, "pinned to a patch release and its digest: %s", build.from)
	require.Equal(t, wanted[1], image[1])
}

func TestImagesHoldStaticProgramsAndNothingElse(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	require.Contains(t, strings.Join(named(t, stages, "build").lines, "\n"), `make build PROGRAMS="api worker dlqctl" VERSION="${VERSION}"`)
	require.Contains(t, read(t, "../Makefile"), "CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata -ldflags '$(LDFLAGS)'")

	for name, programs := range map[string]string{"base": "/src/.build/bin/dlq-api /src/.build/bin/dlq-worker /", "dlqctl": "/src/.build/bin/dlqctl /"} {
		base := named(t, stages, name)
		require.Equal(t, "scratch", base.from)
		copied := strings.Join(base.lines, "\n")
		require.Contains(t, copied, "/etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/")
		require.Contains(t, copied, programs)
		require.Contains(t, base.lines, "USER 65532:65532")
	}
	require.Contains(t, named(t, stages, "dlqctl").lines, `ENTRYPOINT ["/dlqctl"]`)

	for program, port := range map[string]string{"api": "8080", "worker": "9090"} {
		target := named(t, stages, program)
		require.Equal(t, "base", target.from)
		require.Contains(t, target.lines, `ENTRYPOINT ["/dlq-`+program+`"]`)
		require.Contains(t, target.lines, "EXPOSE "+port)
		require.Contains(t, strings.Join(target.lines, "\n"), `CMD ["/dlq-`+program+`", "healthcheck"]`)
		for _, line := range target.lines {
			require.False(t, strings.HasPrefix(line, "USER"), "%s stays unprivileged", program)
		}
	}
	require.Equal(t, "api", stages[len(stages)-1].name, "the default target")
}

// The linker does not report -X for a variable that does not exist.
func TestVersionGoesIntoAVariableThatExists(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`-X dlqmanager/([\w/]+)\.(\w+)=\$\(VERSION\)`).FindStringSubmatch(read(t, "../Makefile"))
	require.NotNil(t, variable)
	files, err := filepath.Glob(filepath.Join("..", variable[1], "*.go"))
	require.NoError(t, err)
	found := false
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.VAR {
				for _, spec := range general.Specs {
					found = found || spec.(*ast.ValueSpec).Names[0].Name == variable[2]
				}
			}
		}
	}
	require.True(t, found, "variable %s in %s", variable[2], variable[1])
}

func TestBuildContextHasEveryPackageOfThePrograms(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	ignored := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(read(t, "../.dockerignore"), ""))
	require.Subset(t, ignored, []string{".git", ".data", ".env"}, "neither history, state nor secrets go to the builder")

	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", "./cmd/api", "./cmd/worker", "./cmd/dlqctl")
	list.Dir = root
	output, err := list.Output()
	require.NoError(t, err)
	own := 0
	for dir := range strings.Lines(string(output)) {
		inside, err := filepath.Rel(root, strings.TrimSpace(dir))
		require.NoError(t, err)
		if strings.HasPrefix(inside, "..") {
			continue
		}
		own++
		require.NotContains(t, ignored, strings.Split(filepath.ToSlash(inside), "/")[0], "package %s is left out", inside)
	}
	require.Positive(t, own)
}
