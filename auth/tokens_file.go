package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"dlqmanager/dlq"
)

// maxTokensFile limits the file of tokens, in bytes.
const maxTokensFile = 1 << 20

// maxName is the longest name of a token, in bytes.
const maxName = 128

// hashPrefix names the algorithm of the hashes. Tokens are random, so a slow hash would not protect them better.
const hashPrefix = "sha256:"

// staticToken is an entry of the file.
type staticToken struct {
	name    string
	hash    [sha256.Size]byte
	grants  []dlq.Grant
	expires time.Time // zero if the token does not expire
}

// fileEntry and fileGrant are the form of the file. Topics is a YAML node, so that an empty list differs from a missing list:
// only a missing list means all topics.
type fileEntry struct {
	Name    string      `yaml:"name"`
	Hash    string      `yaml:"hash"`
	Role    dlq.Role    `yaml:"role"`
	Topics  yaml.Node   `yaml:"topics"`
	Grants  []fileGrant `yaml:"grants"`
	Expires string      `yaml:"expires"`
}

type fileGrant struct {
	Role   dlq.Role  `yaml:"role"`
	Topics yaml.Node `yaml:"topics"`
}

// UnmarshalYAML refuses unknown keys, which Node.Decode does not.
func (g *fileGrant) UnmarshalYAML(node *yaml.Node) error {
	type plain fileGrant
	return decodeStrictly(node, (*plain)(g), "role", "topics")
}

func readTokensFile(path string) ([]byte, error) {
	// To open a pipe would mean to wait for a writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxTokensFile+1))
	if err == nil && len(data) > maxTokensFile {
		return nil, fmt.Errorf("read %s: the file is larger than %d bytes", path, maxTokensFile)
	}
	return data, err
}

// parseTokens reads the entries of a file. An error names the line.
func parseTokens(data []byte) ([]staticToken, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var nodes []yaml.Node
	if err := decoder.Decode(&nodes); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; write [] for no tokens")
	} else if err != nil {
		return nil, err
	}
	if nodes == nil {
		return nil, errors.New("the file has no entries; write [] for no tokens")
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has a second YAML document")
	}
	tokens := make([]staticToken, 0, len(nodes))
	for _, node := range nodes {
		token, err := parseEntry(&node)
		if err == nil {
			err = unlike(token, tokens)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", node.Line, err)
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// unlike refuses a token that has the name or the hash of another token.
func unlike(token staticToken, others []staticToken) error {
	for _, other := range others {
		if other.name == token.name {
			return fmt.Errorf("the name %q occurs twice", token.name)
		}
		if other.hash == token.hash {
			return fmt.Errorf("%q and %q have the same hash", other.name, token.name)
		}
	}
	return nil
}

func parseEntry(node *yaml.Node) (token staticToken, err error) {
	var entry fileEntry
	if err := decodeStrictly(node, &entry, "name", "hash", "role", "topics", "grants", "expires"); err != nil {
		return token, err
	}
	token.name = entry.Name
	if err := checkName(token.name); err != nil {
		return token, err
	}
	digits, isSHA256 := strings.CutPrefix(entry.Hash, hashPrefix)
	if n, err := hex.Decode(token.hash[:], []byte(digits[:min(len(digits), 2*sha256.Size)])); !isSHA256 ||
		err != nil || n != sha256.Size || len(digits) != 2*sha256.Size {
		return token, fmt.Errorf("hash must be %s and %d hexadecimal digits", hashPrefix, 2*sha256.Size)
	}
	if entry.Expires != "" && entry.Expires != "none" {
		if token.expires, err = time.Parse(time.RFC3339, entry.Expires); err != nil {
			return token, fmt.Errorf("expires must be a time such as 2027-01-31T00:00:00Z, or none, not %q", entry.Expires)
		}
	}
	token.grants, err = entry.grants()
	return token, err
}

func (e *fileEntry) grants() ([]dlq.Grant, error) {
	listed := e.Grants
	switch short := e.Role != "" || !e.Topics.IsZero(); {
	case short && listed != nil:
		return nil, errors.New("use either grants, or role and topics")
	case short:
		listed = []fileGrant{{Role: e.Role, Topics: e.Topics}}
	case len(listed) == 0:
		return nil, errors.New("role is required; grants serve as well")
	}
	grants := make([]dlq.Grant, len(listed))
	for i, l := range listed {
		topics, err := topicsOf(&l.Topics)
		if err != nil {
			return nil, err
		}
		if grants[i], err = dlq.NewGrant(l.Role, topics); err != nil {
			return nil, err
		}
	}
	if together := (dlq.Principal{Grants: grants}); together.IsTooWide() {
		return nil, fmt.Errorf("grants have topics that together make an expression of more than %d bytes: use fewer patterns, such as orders.*",
			dlq.MaxExpression)
	}
	return grants, nil
}

// topicsOf returns the topics of an entry. It returns nil, which means all topics, only if the key is missing.
func topicsOf(node *yaml.Node) (topics []string, err error) {
	if node.IsZero() {
		return nil, nil
	}
	if err := node.Decode(&topics); err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		return nil, errors.New(`topics is empty; remove it, or write ["*"], for all topics`)
	}
	return topics, nil
}

// decodeStrictly refuses unknown keys. It also refuses an alias, because the keys behind an alias are not checked.
func decodeStrictly(node *yaml.Node, target any, known ...string) error {
	if node.Kind != yaml.MappingNode {
		return errors.New("must be a section of keys and values")
	}
	for i := 0; i < len(node.Content); i += 2 {
		if key := node.Content[i]; !slices.Contains(known, key.Value) {
			return fmt.Errorf("line %d: unknown key %q", key.Line, key.Value)
		}
	}
	return node.Decode(target)
}

// checkName refuses names that are unclear in logs and in the audit.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("name is required")
	case len(name) > maxName:
		return fmt.Errorf("name is longer than %d bytes", maxName)
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("name %q has control characters, or spaces at its ends", name)
	default:
		return nil
	}
}
