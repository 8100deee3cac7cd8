package dev

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progressInterval is how often something that takes minutes shows that it goes on.
const progressInterval = 10 * time.Second

// goOutput takes what a go command writes with -v. It counts packages and modules,
// whose thousand names would bury an error, and keeps the other lines.
type goOutput struct {
	mu                sync.Mutex
	modules, packages int
	line              []byte // not ended yet
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

// count knows a package by its lack of spaces: every other line has some.
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

// messages are all lines but the names, a last one without an end included.
func (o *goOutput) messages() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rest.String() + string(o.line)
}

// progress tells how far the command has come.
func (o *goOutput) progress() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := fmt.Sprintf("%d packages compiled", o.packages)
	if o.modules > 0 {
		text = fmt.Sprintf("%d modules downloaded, ", o.modules) + text
	}
	return text
}

// showProgress writes the time since start and the progress at every tick, until
// stop, after which it writes nothing more.
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
