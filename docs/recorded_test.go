package docs_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReadmeNamesEachFamilyWhoseHeadersWereNotRecorded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../kafka/testdata/corpus/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	made := map[string]bool{}
	for _, file := range files {
		var letter struct {
			Framework string `json:"framework"`
			Recorded  bool   `json:"recorded"`
		}
		require.NoError(t, json.Unmarshal([]byte(read(t, file)), &letter), file)
		if !letter.Recorded {
			made[letter.Framework] = true
		}
	}
	limits := ""
	for line := range strings.Lines(read(t, "../README.md")) {
		if strings.HasPrefix(line, "| [header families]") {
			limits = line
		}
	}
	require.Equal(t, len(made), strings.Count(limits, "`")/2, "README names the families %v that were not recorded, and no other", made)
	for family := range made {
		require.Contains(t, limits, "`"+family+"`")
	}
}
