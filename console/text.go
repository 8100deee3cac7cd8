package console

import (
	"maps"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/message/catalog"
)

// texts are the Japanese texts of one part of the console, by the English ones, which are also their keys. A text may
// have verbs of fmt: numbers are written as the language writes them.
type texts map[string]string

// plurals are English texts with a number that is their first argument, by the text for many: the text for one.
type plurals map[string]string

// catalogue has all texts of the pages. TestEveryTextHasItsTranslation compares it with the templates and the code.
var catalogue = makeCatalogue()

// textParts are the texts of the parts of the console, which are beside their code. A text is in one of them.
var textParts = []texts{layoutTexts, overviewTexts, groupTexts, messageTexts, planTexts, jobTexts, archiveTexts, sessionTexts}

// japaneseTexts and englishPlurals are all texts.
func japaneseTexts() texts {
	all := texts{}
	for _, part := range textParts {
		maps.Copy(all, part)
	}
	return all
}

func englishPlurals() plurals {
	all := plurals{}
	for _, part := range []plurals{layoutPlurals, overviewPlurals, groupPlurals, messagePlurals, planPlurals, jobPlurals, archivePlurals, sessionPlurals} {
		maps.Copy(all, part)
	}
	return all
}

func makeCatalogue() catalog.Catalog {
	builder := catalog.NewBuilder(catalog.Fallback(language.English))
	for key, text := range japaneseTexts() {
		must(builder.SetString(language.Japanese, key, text))
	}
	for many, one := range englishPlurals() {
		must(builder.Set(language.English, many, plural.Selectf(1, "", "=1", one, "other", many)))
	}
	return builder
}

func must(err error) {
	if err != nil {
		panic(err) // a text of the catalogue is malformed
	}
}

func printerOf(l locale) *message.Printer {
	return message.NewPrinter(language.MustParse(string(l)), message.Catalog(catalogue))
}

// text translates a sentence into the language of the user.
func (v *visit) text(key string, args ...any) string { return v.language.text(key, args...) }

func (l locale) text(key string, args ...any) string {
	return printerOf(l).Sprintf(message.Key(key, key), args...)
}
