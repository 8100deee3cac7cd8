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

// texts are the Japanese texts of one part of the console. The keys are the English texts. A text may have verbs of fmt;
// they write numbers as the language does.
type texts map[string]string

// plurals are English texts whose first argument is a number. The keys are the texts for many, the values the texts for 1.
type plurals map[string]string

// catalogue has all texts of the pages. TestEveryTextHasItsTranslation compares it with the templates and the code.
var catalogue = makeCatalogue()

// textParts are the texts of all parts of the console. Each text is in only one part.
var textParts = []texts{layoutTexts, overviewTexts, groupTexts, messageTexts, planTexts, jobTexts, archiveTexts, sessionTexts, wordTexts()}

// words are the texts of the wordings. Templates and code name the word of the API, not the text.
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
		panic(err) // a text of the catalogue is wrong
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

// word says a word of the API in the language. about names the wording; of is the word, of any string type, or a pointer to it. A word
// that is not in the wording stays as it is. Nil is an empty text.
func (l locale) word(about string, of any, args ...any) string {
	said := plain(of)
	if text, ok := wordings[about][said]; ok {
		return l.text(text[0], args...)
	}
	return said
}

// plain returns a word of any string type, or the word that a pointer leads to; empty for nil.
func plain(of any) string {
	value := reflect.Indirect(reflect.ValueOf(of))
	if !value.IsValid() {
		return ""
	}
	return value.String()
}
