package console

import (
	"maps"
	"reflect"
	"slices"

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
var textParts = []texts{layoutTexts, overviewTexts, groupTexts, messageTexts, planTexts, jobTexts, archiveTexts, sessionTexts, wordTexts()}

// words are texts that templates and code translate without naming them.
var words = slices.Collect(maps.Keys(wordTexts()))

func wordTexts() texts {
	all := texts{}
	for _, words := range wordings {
		for _, text := range words {
			all[text[0]] = text[1]
		}
	}
	return all
}

// japaneseTexts and englishPlurals are all texts.
func japaneseTexts() texts { return merged(textParts...) }

func englishPlurals() plurals {
	return merged(overviewPlurals, groupPlurals, messagePlurals, planPlurals, jobPlurals, archivePlurals)
}

func merged[M ~map[string]string](parts ...M) M {
	all := M{}
	for _, part := range parts {
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

// word says a word of the API in the language of the user.
func (v *visit) word(about string, of any, args ...any) string {
	return v.language.word(about, of, args...)
}

func (l locale) text(key string, args ...any) string {
	return printerOf(l).Sprintf(message.Key(key, key), args...)
}

// word says a word of the API, of any type of texts: one of the wordings about something. A word that is in none stands for itself, and
// null says nothing.
func (l locale) word(about string, of any, args ...any) string {
	said := plain(of)
	if text, ok := wordings[about][said]; ok {
		return l.text(text[0], args...)
	}
	return said
}

// plain is a word of the API as it is, of any type of texts; empty for null.
func plain(of any) string {
	value := reflect.Indirect(reflect.ValueOf(of))
	if !value.IsValid() {
		return ""
	}
	return value.String()
}
