// Package docs_test compares the documentation with the programs.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = ".."

func TestEveryDocumentedCaseHasATestThatExists(t *testing.T) {
	t.Parallel()
	groups, total := groupsOf(t, "test-cases.md")
	require.Equal(t, map[string]int{"Unit cases": 48, "Integration cases": 12}, total)
	tests := testsOf(t)
	for _, g := range groups {
		require.Len(t, g.rows, g.size, "rows of %s", g.name)
		for _, row := range g.rows {
			require.NotEmpty(t, row.tests, "no test for %q in %s", row.what, g.name)
			for _, name := range row.tests {
				require.True(t, tests.has(name), "%s, %q: there is no test %s", g.name, row.what, name)
			}
		}
	}
}

func TestATestThatDoesNotExistIsFound(t *testing.T) {
	t.Parallel()
	tests := testsOf(t)
	for _, name := range []string{
		"dlq.TestNothingOfThisName", "api.TestStatusParsesItsOwnName", "nowhere.TestContract",
		"store/postgres.TestContract/no such subtest", "store/postgres.TestNothing/a deleted message is gone", "TestContract",
	} {
		require.False(t, tests.has(name), name)
	}
}

// group is a table. Its heading has the number of its rows.
type group struct {
	name string
	size int
	rows []row
}

type row struct {
	what  string
	tests []string
}

var (
	heading  = regexp.MustCompile(`^(##+) (.+) \((\d+)\)$`)
	quoted   = regexp.MustCompile("`([^`]+)`")
	tableTop = regexp.MustCompile(`^\|(-+\||\s*case\s*\|)`)
)

// groupsOf reads the tables, and adds up the rows of each chapter. The sum must be the number in the heading of the chapter.
func groupsOf(t *testing.T, file string) (groups []group, total map[string]int) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	total = map[string]int{}
	said := map[string]int{}
	chapter := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if found := heading.FindStringSubmatch(line); found != nil {
			size, err := strconv.Atoi(found[3])
			require.NoError(t, err)
			if found[1] == "##" {
				chapter, said[found[2]] = found[2], size
				continue
			}
			groups = append(groups, group{name: found[2], size: size})
			total[chapter] += size
			continue
		}
		if !strings.HasPrefix(line, "|") || tableTop.MatchString(line) {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, 2, line)
		require.NotEmpty(t, groups, "a row without a heading: %s", line)
		r := row{what: strings.TrimSpace(cells[0])}
		for _, found := range quoted.FindAllStringSubmatch(cells[1], -1) {
			r.tests = append(r.tests, found[1])
		}
		g := &groups[len(groups)-1]
		g.rows = append(g.rows, r)
	}
	require.Equal(t, said, total, "groups must add up to their chapter")
	return groups, total
}

// tree has the names of tests in the Go files: the test functions by folder, and the texts that can be names of subtests.
type tree struct {
	tests map[string]bool
	texts map[string]map[string]bool
}

// has reports whether "folder.TestName", or "folder.TestName/subtest", exists.
func (s tree) has(name string) bool {
	folder, test, _ := strings.Cut(name, ".")
	test, subtest, isSubtest := strings.Cut(test, "/")
	if !s.tests[folder+"."+test] || !isSubtest {
		return s.tests[folder+"."+test]
	}
	for in, texts := range s.texts {
		if (in == folder || strings.HasPrefix(in, path.Dir(folder)+"/")) && texts[subtest] {
			return true // a contract suite may be in another folder
		}
	}
	return false
}

func testsOf(t *testing.T) tree {
	t.Helper()
	found := tree{tests: map[string]bool{}, texts: map[string]map[string]bool{}}
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != root && strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir // folders with built files and with state
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		found.add(path.Dir(filepath.ToSlash(relative)), file, strings.HasSuffix(name, "_test.go"))
		return nil
	}))
	return found
}

func (s tree) add(folder string, file *ast.File, isTest bool) {
	if s.texts[folder] == nil {
		s.texts[folder] = map[string]bool{}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			if isTest && n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				s.tests[folder+"."+n.Name.Name] = true
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				s.texts[folder][text] = true
			}
		}
		return true
	})
}
