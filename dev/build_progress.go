package dev

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progressInterval is how often a long step reports its progress.
const progressInterval = 10 * time.Second

// goOutput receives the output of go install -v. It counts packages and modules, since
// a thousand names would hide an error, and keeps the other lines.
type goOutput struct {
	mu                sync.Mutex
	modules, packages int
	line              []byte // the incomplete last line
	rest              bytes.Buffer
}

func (o *goOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range bytes.Lines(b) {
		if o.line = append(o.line, line...); bytes.HasSuffix(o.line, []byte("\n")) {
			o.count(string(o.line))
			o.line = o.line[:0]
		}
	}
	return len(b), nil
}

// count recognises the line of a package: unlike all other lines, it has no spaces.
func (o *goOutput) count(line string) {
	name := strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(name, "go: downloading "):
		o.modules++
	case name != "" && !strings.ContainsAny(name, " \t"):
		o.packages++
	default:
		o.rest.WriteString(line)
	}
}

// messages returns all other lines, including an incomplete last one.
func (o *goOutput) messages() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rest.String() + string(o.line)
}

// progress returns the counts so far.
func (o *goOutput) progress() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := fmt.Sprintf("%d packages compiled", o.packages)
	if o.modules > 0 {
		text = fmt.Sprintf("%d modules downloaded, ", o.modules) + text
	}
	return text
}

// showProgress writes the time since start and the progress at every tick. After stop
// it writes nothing more.
func showProgress(out io.Writer, start time.Time, ticks <-chan time.Time, progress func() string) (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case now := <-ticks:
				fmt.Fprintf(out, "  after %s: %s\n", now.Sub(start).Round(time.Second), progress())
			case <-stopping:
				return
			}
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}
