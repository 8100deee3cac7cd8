package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licenseclassifier/v2/assets"
	"github.com/stretchr/testify/require"
)

func TestLicencesAreRecognised(t *testing.T) {
	t.Parallel()
	classify, err := assets.DefaultClassifier()
	require.NoError(t, err)
	own, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	require.Equal(t, []string{"Apache-2.0"}, namesOf(classify, own))
	require.Equal(t, []string{"unknown"}, namesOf(classify, []byte("You may use this on weekdays.")))
}

func TestLicencesThatAreNotAllowedAreRefused(t *testing.T) {
	t.Parallel()
	errs := refused(map[string][]finding{
		"a": {{"MIT", "LICENSE"}}, "b": {{"MIT", "LICENSE"}, {"AGPL-3.0", "x/COPYING"}}, "c": nil, "d": {{"unknown", "LICENSE"}}, "e": {{noLicence, "seen"}},
	})
	require.Len(t, errs, 3)
	require.EqualError(t, errs[0], `b: x/COPYING: the licence "AGPL-3.0" is not allowed`)
	require.EqualError(t, errs[1], "c has no licence file")
	require.EqualError(t, errs[2], `d: LICENSE: the licence "unknown" is not allowed`)
}

func TestTheListOfLicencesIsThatOfTheLinkedPackages(t *testing.T) { //nolint:paralleltest // it changes the working directory
	t.Chdir("../..")
	require.NoError(t, run([]string{"licences"}))
	outdated := filepath.Join(t.TempDir(), "licences.csv")
	require.NoError(t, os.WriteFile(outdated, []byte("module,licence,file\n"), 0o600))
	require.ErrorContains(t, licences(outdated, false), "does not match the linked packages")
}

func TestTheBillOfMaterialsNamesWhatIsLinked(t *testing.T) { //nolint:paralleltest // it changes the working directory
	t.Chdir("../..")
	folder := t.TempDir()
	require.NoError(t, run([]string{"sbom", "-version", "v1.2.3", "-out", folder}))
	for _, name := range []string{"dlq-api", "dlq-worker"} {
		content, err := os.ReadFile(filepath.Join(folder, name+".cdx.json"))
		require.NoError(t, err)
		var bom cdx.BOM
		require.NoError(t, cdx.NewBOMDecoder(strings.NewReader(string(content)), cdx.BOMFileFormatJSON).Decode(&bom))
		require.Equal(t, "pkg:golang/"+name+"@v1.2.3", bom.Metadata.Component.PackageURL)
		parts := map[string]cdx.Component{}
		for _, part := range *bom.Components {
			parts[part.Name] = part
		}
		require.Contains(t, parts, "std")
		pgx := parts["github.com/jackc/pgx/v5"]
		require.Equal(t, "MIT", (*pgx.Licenses)[0].License.ID)
		require.Len(t, (*pgx.Hashes)[0].Value, 64)
		require.NotContains(t, parts, "github.com/twmb/franz-go/pkg/kfake", "it is for development only")
	}
}
