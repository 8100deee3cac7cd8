//go:build image || release

package deploy_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// filesIn lists the files below a folder, by their relative paths.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, folder))
		}
		return err
	}))
	return files
}
