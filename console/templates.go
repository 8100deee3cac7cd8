package console

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"dlqmanager/client"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the pages in one language, by their names.
type templates map[string]*template.Template

// parseTemplates makes a set for each page: the layout, the shared parts, and the page's own blocks.
func parseTemplates(base string) (map[locale]templates, error) {
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := map[locale]templates{}
	for _, l := range locales {
		shared, err := template.New("layout").Funcs(functions(l, base)).ParseFS(templateFiles, "templates/_*.html")
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		all[l] = templates{}
		for _, name := range names {
			page := strings.TrimSuffix(path.Base(name), ".html")
			if strings.HasPrefix(page, "_") {
				continue
			}
			set, err := shared.Clone()
			if err == nil {
				set, err = set.ParseFS(templateFiles, name)
			}
			if err != nil {
				return nil, fmt.Errorf("console: %w", err)
			}
			all[l][page] = set
		}
	}
	return all, nil
}

// functions are the functions that templates can call beside the standard functions.
func functions(l locale, base string) template.FuncMap {
	return template.FuncMap{
		"t":       l.text,
		"asset":   func(name string) string { return base + "/assets/" + assetNames[name] },
		"link":    func(path string, query ...string) (string, error) { return link(base, path, query) },
		"seg":     url.PathEscape,
		"num":     l.number,
		"time":    timeOf,
		"utc":     utc,
		"web":     webAddress,
		"val":     valueOf[string],
		"dict":    dict,
		"list":    func(items ...string) []string { return items },
		"plain":   plain,
		"preview": preview,
		"short":   short,
		"ending":  ending,
		// visible is for texts of strangers: it shows invisible characters as escapes.
		"visible":  visible,
		"bytes":    l.bytes,
		"word":     func(about string, of any) string { return l.word(about, of) },
		"verified": l.verified,
	}
}

// link makes the address of a page. query has names and values in turn. Parameters with an empty value are left out.
func link(base, path string, query []string) (string, error) {
	if len(query)%2 != 0 {
		return "", errors.New("a parameter of a link has no value")
	}
	values := url.Values{}
	for pair := range slices.Chunk(query, 2) {
		if pair[1] != "" {
			values.Add(pair[0], pair[1])
		}
	}
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return base + path, nil
}

// dict makes a map of names and values in turn, to give several values to a template.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("a name of dict has no value")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// number writes a number as the language does, and a dash for null.
func (l locale) number(n any) string {
	if n, ok := n.(*int64); ok {
		if n == nil {
			return "–"
		}
		return printerOf(l).Sprint(*n)
	}
	return printerOf(l).Sprint(n)
}

// valueOf returns the value of an optional field, zero for null.
func valueOf[T any](value *T) (zero T) {
	if value == nil {
		return zero
	}
	return *value
}

// timeOf returns a time that may be null, in UTC; nil for null.
func timeOf(value any) *time.Time {
	if optional, ok := value.(*time.Time); ok {
		value = valueOf(optional)
	}
	at, _ := value.(time.Time)
	if at.IsZero() {
		return nil
	}
	return new(at.UTC())
}

// short cuts a text for a list after some characters.
func short(characters int, text string) string {
	runes := []rune(text)
	if len(runes) <= characters {
		return text
	}
	return string(runes[:characters]) + "…"
}

// utc writes a time, with its seconds if it is no whole minute.
func utc(at time.Time) string {
	layout := "2006-01-02 15:04"
	if at.Second() != 0 {
		layout = "2006-01-02 15:04:05"
	}
	return at.UTC().Format(layout) + " UTC"
}

// ending returns the end of an id, for a list. The ids of messages of the same minutes begin with the same
// characters.
func ending(id string) string {
	if len(id) <= 8 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// bytes writes a size in binary units.
func (l locale) bytes(n int64) string {
	size, unit := float64(n), 0
	for size >= 1024 && unit < len(sizeUnits)-1 {
		size, unit = size/1024, unit+1
	}
	if unit == 0 {
		return printerOf(l).Sprintf("%d B", n)
	}
	return printerOf(l).Sprintf("%.1f %s", size, sizeUnits[unit])
}

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// explain writes an error of the API for people.
func (v *visit) explain(err error) string {
	var refused *client.APIError
	if errors.Is(err, client.ErrSignIn) {
		return v.text("Your sign-in has ended: %s", err.Error())
	}
	if failed, ok := errors.AsType[providerError](err); ok {
		return v.text("The identity provider does not answer as it should: %s", failed.Error())
	}
	if !errors.As(err, &refused) {
		return v.text("The API cannot be reached: %s", err.Error())
	}
	if refused.Code == client.ErrorCodeUnavailable && len(refused.Details) == 0 {
		return v.text("The server cannot do this now, since a part that it needs is away: %s", refused.Message)
	}
	var text strings.Builder
	text.WriteString(refused.Message)
	for _, detail := range refused.Details {
		fmt.Fprintf(&text, "; %s: %s", detail.Field, detail.Message)
	}
	return text.String()
}
