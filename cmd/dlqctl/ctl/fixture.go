package ctl

import (
	"bytes"
	"cmp"
	_ "embed" // the tests of fixtures
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

var fixtureView = view{noun: "files", list: "files", id: "name", whole: true, sample: fixtureFile{}, columns: []column{{"FILE", "name"}, {"BYTES", "size"}}}

// fixtureFile is a file that the command has written.
type fixtureFile struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

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
		written, err := writeFixture(folder, files)
		if err != nil {
			return fmt.Errorf("the fixture: %w", err)
		}
		s.note("Written to " + folder + ".")
		if m.MaskedPaths != nil {
			s.note("Hidden: " + strings.Join(*m.MaskedPaths, ", "))
		} else {
			s.note("Nothing of this message is hidden by the rules of the server: look for personal data before you commit it.")
		}
		encoded, err := json.Marshal(map[string]any{"files": written})
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

// fixtureTests are the tests that load a fixture, by language. They need the standard library, and JUnit for Java.
var fixtureTests = map[string]file{"go": {"fixture_test.go", goTest}, "java": {"FixtureTest.java", javaTest}}

// file is a file of a fixture.
type file struct {
	name    string
	content []byte
}

// fixtureMessage is the content of message.json.
type fixtureMessage struct {
	ID            string   `json:"id"`
	DlqTopic      string   `json:"dlq_topic"`
	OriginalTopic string   `json:"original_topic"`
	ErrorClass    *string  `json:"error_class"`
	ErrorMessage  string   `json:"error_message"`
	Masked        []string `json:"masked_paths"`
}

// fixtureHeader is a header as dlqctl messages send takes it.
type fixtureHeader struct {
	Key    string  `json:"key"`
	Value  *string `json:"value,omitempty"`
	Base64 *[]byte `json:"value_base64,omitempty"`
}

// fixtureOf makes the files of a message.
func fixtureOf(m *client.MessageDetail) (files []file, err error) {
	key, value, headers := m.Key, m.Value, m.Headers
	if m.Pointed != nil && m.Pointed.Error == nil {
		key, value, headers = m.Pointed.Key, m.Pointed.Value, m.Pointed.Headers
	}
	if key != nil {
		files = append(files, file{"key", key.Base64})
	}
	if value != nil {
		files = append(files, file{"value", value.Base64})
	}
	list := make([]any, len(headers))
	for i, h := range headers {
		switch {
		case h.Value == nil:
			list[i] = map[string]any{"key": h.Key, "value": nil}
		case utf8.Valid(*h.Value):
			text := string(*h.Value)
			list[i] = fixtureHeader{Key: h.Key, Value: &text}
		default:
			list[i] = fixtureHeader{Key: h.Key, Base64: h.Value}
		}
	}
	about := fixtureMessage{ID: m.ID, DlqTopic: m.DlqTopic, OriginalTopic: m.OriginalTopic, ErrorClass: m.ErrorClass,
		ErrorMessage: m.ErrorMessage, Masked: []string{}}
	if m.MaskedPaths != nil {
		about.Masked = *m.MaskedPaths
	}
	documents := []struct {
		name  string
		value any
		isNil bool
	}{
		{"headers.json", list, false}, {"message.json", about, false}, {"schema.json", m.Schema, m.Schema == nil},
		{"payload.json", m.Payload, m.Schema == nil || len(m.Payload) == 0 || string(m.Payload) == "null"},
	}
	for _, d := range documents {
		if d.isNil {
			continue
		}
		content := new(bytes.Buffer)
		encoder := json.NewEncoder(content)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(d.value); err != nil {
			return nil, err
		}
		files = append(files, file{d.name, content.Bytes()})
	}
	return files, nil
}

// writeFixture writes files into a new folder.
func writeFixture(folder string, files []file) ([]fixtureFile, error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o750); err != nil {
		return nil, err
	}
	err := os.Mkdir(folder, 0o750)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: name another folder with --dir, or remove it", folder)
	}
	if err != nil {
		return nil, err
	}
	written := make([]fixtureFile, len(files))
	for i, f := range files {
		path := filepath.Join(folder, f.name)
		if err := os.WriteFile(path, f.content, 0o600); err != nil {
			return nil, err
		}
		written[i] = fixtureFile{f.name, len(f.content)}
	}
	return written, nil
}
