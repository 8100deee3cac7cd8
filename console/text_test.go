package console

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// used finds the texts that templates and code translate: t "…" and text("…").
func used(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, word := range words {
		found[word] = "words"
	}
	collect := func(pattern string, expression *regexp.Regexp) {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range expression.FindAllStringSubmatch(string(content), -1) {
				key, err := strconv.Unquote(`"` + match[1] + `"`)
				require.NoError(t, err, match[0])
				found[key] = file
			}
		}
	}
	collect("templates/*.html", regexp.MustCompile(`[({ ]t "((?:[^"\\]|\\.)*)"`))
	collect("*.go", regexp.MustCompile(`\.text\("((?:[^"\\]|\\.)*)"`))
	return found
}

func TestEveryKeyIsInTheListOfKeys(t *testing.T) {
	t.Parallel()
	_, dialog, found := strings.Cut(open(t, noTopics).get("/me").text, `<dialog id="keys"`)
	require.True(t, found)
	names, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, name := range names {
		content, err := templateFiles.ReadFile("templates/" + name.Name())
		require.NoError(t, err)
		for _, key := range regexp.MustCompile(`data-go="([a-z])"`).FindAllStringSubmatch(string(content), -1) {
			require.Contains(t, dialog, "<kbd>g</kbd> <kbd>"+key[1]+"</kbd>", name.Name())
		}
	}
}

func TestEveryTextHasItsTranslation(t *testing.T) {
	t.Parallel()
	inUse, translated := used(t), japaneseTexts()
	for key, file := range inUse {
		require.Contains(t, translated, key, "%s: no Japanese text", file)
	}
	for key := range translated {
		require.Contains(t, inUse, key, "a translation of what no page says")
	}
	for many := range englishPlurals() {
		require.Contains(t, inUse, many, "a plural of what no page says")
	}
}

func TestATextIsTranslatedOnce(t *testing.T) {
	t.Parallel()
	seen := texts{}
	for _, part := range textParts {
		for key, text := range part {
			require.NotContains(t, seen, key, "two translations, %s and %s: keep the text of the first part", seen[key], text)
			seen[key] = text
		}
	}
}

func TestTranslationsHaveTheVerbsOfTheirTexts(t *testing.T) {
	t.Parallel()
	verbs := regexp.MustCompile(`%(\[\d\])?[a-z]`)
	for key, text := range japaneseTexts() {
		want, got := verbs.FindAllString(key, -1), verbs.FindAllString(text, -1)
		for i := range got {
			got[i] = regexp.MustCompile(`\[\d\]`).ReplaceAllString(got[i], "")
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got, key)
	}
}

func TestEveryTextWithANumberHasAPlural(t *testing.T) {
	t.Parallel()
	counted := regexp.MustCompile(`%d [a-z]+s\b`)
	for key := range used(t) {
		if counted.MatchString(key) && !strings.Contains(key, "bytes") {
			require.Contains(t, englishPlurals(), key)
		}
	}
}

// Names and texts of strangers stand in a bdi. They may have invisible characters, and characters that change the
// direction of the text after them.
func TestTemplatesMakeTheCharactersOfStrangersVisible(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("templates/*.html")
	require.NoError(t, err)
	expression := regexp.MustCompile(`<bdi>\{\{([^}]*)\}\}`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range expression.FindAllStringSubmatch(string(content), -1) {
			if !strings.Contains(match[1], "visible ") && !strings.HasPrefix(match[1], "template ") {
				t.Errorf("%s: %s does not make its text visible", file, match[0])
			}
		}
	}
}
