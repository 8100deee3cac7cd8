package postgres

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/migrations"
)

// Nobody reads longer statements, and their plans are hard to predict. Decisions are made in Go, in package dlq.
const (
	maxStatementLines = 60
	maxStatementCTEs  = 6
)

// oversized are the statements that exceed a limit, each with the reason.
var oversized = map[string]string{
	"publishWatermarksSQL": "short; the lease that it locks fences five writes, which would be five more round trips",
}

func TestEveryStatementIsShortEnoughToRead(t *testing.T) {
	t.Parallel()
	texts := statements(t)
	maps.Copy(texts, unnamedStatements(t))
	maps.Copy(texts, functionStatements(t))
	require.Greater(t, len(texts), 100)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		lines, ctes := sizeOf(texts[name])
		tooLarge := lines > maxStatementLines || ctes > maxStatementCTEs
		reason, excepted := oversized[name]
		switch {
		case tooLarge && !excepted:
			t.Errorf("%s has %d lines and %d CTEs, of at most %d and %d: move what it decides to dlq, or split it",
				name, lines, ctes, maxStatementLines, maxStatementCTEs)
		case excepted && !tooLarge:
			t.Errorf("%s has only %d lines and %d CTEs: remove it from the exceptions", name, lines, ctes)
		case excepted && reason == "":
			t.Errorf("%s: an exception has a reason", name)
		}
	}
	for name := range oversized {
		require.Contains(t, texts, name, "remove what no longer exists from the exceptions")
	}
}

func TestLinesAndCTEsOfAStatementAreCounted(t *testing.T) {
	t.Parallel()
	for sql, expected := range map[string][2]int{
		"\n-- why\nSELECT 1\n\n": {1, 0},
		`WITH a AS (SELECT 1), b (x, y) AS MATERIALIZED (
			-- why
			WITH c AS NOT MATERIALIZED (VALUES (1)) TABLE c
		), d AS (DELETE FROM t RETURNING id)
		SELECT sum(n) OVER w FROM (SELECT 1) AS e, LATERAL (SELECT 1) AS f WINDOW w AS (PARTITION BY n)`: {4, 4},
		"INSERT INTO t AS u (id) SELECT 1":                                     {1, 0},
		"WITH RECURSIVE r AS (\n(SELECT 1) UNION ALL SELECT n FROM r) TABLE r": {2, 1},
	} {
		lines, ctes := sizeOf(sql)
		require.Equal(t, expected, [2]int{lines, ctes}, sql)
	}
	require.Equal(t, []string{"IF a THEN\nSELECT ';' INTO b", "END IF", "RETURN b"},
		splitStatements("IF a THEN\nSELECT ';' INTO b; -- ; or not\nEND IF;\nRETURN b;\n"))
}

var (
	sqlComment = regexp.MustCompile(`--[^\n]*`)
	cte        = regexp.MustCompile(`\b\w+(?: ?\([^()]*\))? AS (?:(?:NOT )?MATERIALIZED )?\([\s(]*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|VALUES|TABLE)\b`)
	sqlVerb    = regexp.MustCompile(`^\s*(?:WITH|SELECT|INSERT|UPDATE|DELETE|MERGE|CALL|COPY)\b`)
	function   = regexp.MustCompile(`(?s)CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (\S+?)\(.*?\$\$(.*?)\$\$`)
)

// sizeOf counts the lines and the common table expressions of a statement, without comments and empty lines.
func sizeOf(sql string) (lines, ctes int) {
	sql = sqlComment.ReplaceAllString(sql, "")
	for line := range strings.Lines(sql) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	return lines, len(cte.FindAllString(sql, -1))
}

// unnamedStatements are the texts of SQL in this package that are no constants of their own, by place.
func unnamedStatements(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		positions := token.NewFileSet()
		parsed, err := parser.ParseFile(positions, file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			if declaration, ok := node.(*ast.GenDecl); ok && declaration.Tok == token.CONST {
				return false // the function statements finds constants
			}
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				if sqlVerb.MatchString(text) {
					found[positions.Position(literal.Pos()).String()] = text
				}
			}
			return true
		})
	}
	return found
}

// functionStatements are the statements in the bodies of the database's functions, by place.
func functionStatements(t *testing.T) map[string]string {
	t.Helper()
	files, err := fs.Glob(migrations.Files, "*.up.sql")
	require.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		source, err := migrations.Files.ReadFile(file)
		require.NoError(t, err)
		for _, match := range function.FindAllStringSubmatch(string(source), -1) {
			for i, statement := range splitStatements(match[2]) {
				found[fmt.Sprintf("%s: statement %d of %s", file, i+1, match[1])] = statement
			}
		}
	}
	return found
}

// splitStatements splits the body of a function at its semicolons.
func splitStatements(body string) (found []string) {
	text, quoted := strings.Builder{}, false
	for _, r := range sqlComment.ReplaceAllString(body, "") + ";" {
		quoted = quoted != (r == '\'')
		if r != ';' || quoted {
			text.WriteRune(r)
			continue
		}
		if statement := strings.TrimSpace(text.String()); statement != "" {
			found = append(found, statement)
		}
		text.Reset()
	}
	return found
}

// statements are the constants of this package whose names end in SQL.
func statements(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found, values := map[string]string{}, map[string]ast.Expr{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			constants, ok := declaration.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if len(value.Values) > i {
						values[name.Name] = value.Values[i]
					}
				}
			}
		}
	}
	var text func(ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			return strings.Trim(e.Value, "`")
		case *ast.Ident:
			return text(values[e.Name])
		case *ast.BinaryExpr:
			return text(e.X) + text(e.Y)
		}
		require.Failf(t, "not a constant text", "%T", e)
		return ""
	}
	for name, value := range values {
		if strings.HasSuffix(name, "SQL") {
			found[name] = text(value)
		}
	}
	return found
}
