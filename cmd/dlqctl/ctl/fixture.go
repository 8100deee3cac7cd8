package ctl

import (
	"bytes"
	"cmp"
	_ "embed" // for the embedded test files
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

var fixtureView = view{noun: "files", list: "files", id: "name", whole: true, sample: file{}, columns: []column{{"FILE", "name"}, {"BYTES", "size"}}}

// file is a file of a fixture.
type file struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`
	content []byte
}

func newFile(name string, content []byte) file { return file{name, len(content), content} }

func (s *session) fixtureCommand() *cobra.Command {
	var folder, language string
	cmd := &cobra.Command{
		Use: "fixture ID", Short: "Write a message as files for a test of its consumer", Args: argumentsOf("fixture ID"),
		Long: `Writes a message into a new folder: its bytes as key and value (no file for null), headers.json, schema.json if the value names a
schema, payload.json with what the schema decoded, message.json with its topics and error, and a test that loads them. The files are masked
as everything else, so they can be committed; a message that you have revealed is refused until it is hidden again.`,
		Example: `  dlqctl fixture 01a214f0-d99b-85ca-9c4b-208d64cffa24 --dir orders/dead-letter
  dlqctl fixture 01a214f0-d99b-85ca-9c4b-208d64cffa24 --test java`,
	}
	cmd.Flags().StringVar(&folder, "dir", "", "the new folder (default dlq-ID)")
	cmd.Flags().StringVar(&language, "test", "go", "language of the test: go, java or none")
	s.complete(cmd, "test", fixed("go", "java", "none"))
	cmd.RunE = s.showing(fixtureView, func(cmd *cobra.Command, args []string, p *printer) error {
		if _, known := fixtureTests[language]; !known && language != "none" {
			return usageError{fmt.Errorf("--test is go, java or none, not %s", language)}
		}
		id := named(args)[0]
		answer, err := s.client.GetMessage(cmd.Context(), id, nil)
		if err != nil {
			return err
		}
		m := &answer.Value
		if m.UnmaskedUntil != nil {
			return fmt.Errorf("you have revealed this message until %s, and a fixture is masked: try again then", *m.UnmaskedUntil)
		}
		folder = cmp.Or(folder, "dlq-"+id)
		files, err := fixtureOf(m)
		if err != nil {
			return err
		}
		if t, known := fixtureTests[language]; known {
			files = append(files, t)
		}
		if err := writeFixture(folder, files); err != nil {
			return fmt.Errorf("the fixture: %w", err)
		}
		s.note("Written to " + folder + ".")
		if m.MaskedPaths != nil {
			s.note("Hidden: " + strings.Join(*m.MaskedPaths, ", "))
		} else {
			s.note("Nothing of this message is hidden by the rules of the server: look for personal data before you commit it.")
		}
		encoded, err := json.Marshal(map[string]any{"files": files})
		if err != nil {
			return err
		}
		return p.one(cmd.Context(), encoded)
	})
	return cmd
}

//go:embed fixtures/fixture_test.go.txt
var goTest []byte

//go:embed fixtures/FixtureTest.java
var javaTest []byte

// fixtureTests are the tests that load a fixture, by language. They need only the standard library, or JUnit in Java.
var fixtureTests = map[string]file{"go": newFile("fixture_test.go", goTest), "java": newFile("FixtureTest.java", javaTest)}

// fixtureMessage is the content of message.json.
type fixtureMessage struct {
	ID            string   `json:"id"`
	DlqTopic      string   `json:"dlq_topic"`
	OriginalTopic string   `json:"original_topic"`
	ErrorClass    *string  `json:"error_class"`
	ErrorMessage  string   `json:"error_message"`
	Masked        []string `json:"masked_paths"`
}

// fixtureOf makes the files of the fixture from a message.
func fixtureOf(m *client.MessageDetail) (files []file, err error) {
	key, value, headers := m.Key, m.Value, m.Headers
	if m.Pointed != nil && m.Pointed.Error == nil {
		key, value, headers = m.Pointed.Key, m.Pointed.Value, m.Pointed.Headers
	}
	if key != nil {
		files = append(files, newFile("key", key.Base64))
	}
	if value != nil {
		files = append(files, newFile("value", value.Base64))
	}
	list := make([]any, len(headers)) // in the form that "dlqctl messages send" reads
	for i, h := range headers {
		switch {
		case h.Value == nil:
			list[i] = map[string]any{"key": h.Key, "value": nil}
		case utf8.Valid(*h.Value):
			list[i] = map[string]any{"key": h.Key, "value": string(*h.Value)}
		default:
			list[i] = map[string]any{"key": h.Key, "value_base64": *h.Value}
		}
	}
	about := fixtureMessage{ID: m.ID, DlqTopic: m.DlqTopic, OriginalTopic: m.OriginalTopic, ErrorClass: m.ErrorClass,
		ErrorMessage: m.ErrorMessage, Masked: []string{}}
	if m.MaskedPaths != nil {
		about.Masked = *m.MaskedPaths
	}
	add := func(name string, document any) {
		content := new(bytes.Buffer)
		encoder := json.NewEncoder(content)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = errors.Join(err, encoder.Encode(document))
		files = append(files, newFile(name, content.Bytes()))
	}
	add("headers.json", list)
	add("message.json", about)
	if m.Schema != nil {
		add("schema.json", m.Schema)
		if len(m.Payload) > 0 && string(m.Payload) != "null" {
			add("payload.json", m.Payload)
		}
	}
	return files, err
}

// writeFixture writes files into a new folder.
func writeFixture(folder string, files []file) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o750); err != nil {
		return err
	}
	err := os.Mkdir(folder, 0o750)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: name another folder with --dir, or remove it", folder)
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(folder, f.Name), f.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
