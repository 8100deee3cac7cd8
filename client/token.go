package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// TokenSource returns the token of each request. A sign-in at an identity provider, such as DeviceFlow, is also a
// Renewer.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// Renewer is a TokenSource that can get another token when the server refuses the current one.
type Renewer interface {
	TokenSource
	// Refused gets the token that the server answered with 401, and tells whether Token may return another token.
	Refused(token string) bool
}

// StaticToken is a token that never changes.
type StaticToken string

// Token returns the token.
func (t StaticToken) Token(context.Context) (string, error) { return string(t), nil }

type fileToken struct {
	path string

	mutex    sync.Mutex
	token    string
	modified time.Time
	size     int64
}

// FileToken reads a token from a file, and reads the file again when it changes. Space around the token is ignored.
func FileToken(path string) TokenSource { return &fileToken{path: path} }

func (f *fileToken) Token(context.Context) (string, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return "", fmt.Errorf("the file of the token: %w", err)
	}
	if f.token != "" && info.ModTime().Equal(f.modified) && info.Size() == f.size {
		return f.token, nil
	}
	content, err := readToken(f.path)
	if err != nil {
		return "", fmt.Errorf("the file of the token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("the file of the token, %s, is empty", f.path)
	}
	f.token, f.modified, f.size = token, info.ModTime(), info.Size()
	return token, nil
}

// maxToken is in bytes: more than a server accepts in the headers of a request.
const maxToken = 64 << 10

func readToken(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err == nil && len(content) > maxToken {
		err = fmt.Errorf("%s has more than %d KiB and is no token", path, maxToken>>10)
	}
	return content, err
}

// Refused reads the file again: Token does not see a change that leaves the file's size and time as they were.
func (f *fileToken) Refused(token string) bool {
	f.mutex.Lock()
	f.token = ""
	f.mutex.Unlock()
	current, err := f.Token(context.Background())
	return err == nil && current != token
}

type commandToken struct {
	name string
	args []string

	mutex sync.Mutex
	token string
}

// CommandToken runs a program whose output is a token, and runs it again when the server refuses the token.
func CommandToken(name string, args ...string) TokenSource {
	return &commandToken{name: name, args: args}
}

func (c *commandToken) Token(ctx context.Context) (string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.token != "" {
		return c.token, nil
	}
	command := exec.CommandContext(ctx, c.name, c.args...) //nolint:gosec // the caller's own command
	var stderr bytes.Buffer
	command.Stderr = &stderr
	command.WaitDelay = time.Second // an agent that the command has started may hold its output open
	output, err := command.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("the command of the token, %s: %w: %s", c.name, err, strings.TrimSpace(stderr.String()))
	}
	token := strings.TrimSpace(string(output))
	if token == "" {
		return "", errors.New("the command of the token, " + c.name + ", has printed nothing")
	}
	c.token = token
	return token, nil
}

// Refused forgets the token, unless another request has already replaced it.
func (c *commandToken) Refused(token string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.token == token {
		c.token = ""
	}
	return true
}
