package ctl

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"dlqmanager/client"
)

// requestTimeout is longer than the server ever waits for a job or a retry.
const requestTimeout = 90 * time.Second

// connect makes the client of the context of this run.
func (s *session) connect() (*client.Client, target, error) {
	_, t, err := s.current()
	if err != nil {
		return nil, t, err
	}
	var transport http.RoundTripper // nil is Go's own
	if t.CAFile != "" {
		content, err := t.certificates()
		if err != nil {
			return nil, t, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			return nil, t, fmt.Errorf("%s has no certificate in PEM", t.CAFile)
		}
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}
	}
	c, err := client.New(t.Server, client.Config{
		HTTP: &http.Client{Transport: transport, Timeout: requestTimeout}, Token: t.source(), UserAgent: "dlqctl/" + s.Version,
		Retries: s.retries, Unreachable: s.unreachable,
	})
	if err != nil {
		return nil, t, usageError{err}
	}
	return c, t, nil
}

// unreachable tells once that the API is away, and once that it is back.
func (s *session) unreachable(err error) {
	switch {
	case err == nil && s.away:
		s.note("The API answers again.")
	case err != nil && !s.away:
		s.note("The API is away; dlqctl goes on trying: " + err.Error())
	}
	s.away = err != nil
}

// note tells the person something that does not belong to the output.
func (s *session) note(text string) { fmt.Fprintln(s.Stderr, printable(text)) }

// terminal tells whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// readLine reads a line from the standard input, byte by byte, so that what follows it is left for others.
func (s *session) readLine() (string, error) {
	line, err := bufio.NewReaderSize(oneByte{s.Stdin}, 16).ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:min(1, len(p))]) }

// confirm asks before a change. In a production context the answer is the name of the topic. Without a terminal only
// --yes allows the change.
func (s *session) confirm(question, topic string, t target) error {
	if s.flags.yes {
		return nil
	}
	if !terminal(s.Stdin) {
		return usageError{fmt.Errorf("%s\nNobody can be asked here: add --yes", question)}
	}
	want, ask := "yes", question+" Type yes: "
	if t.Production {
		want, ask = topic, question+" This is production. Type the name of the topic: "
	}
	fmt.Fprint(s.Stderr, printable(ask))
	answer, err := s.readLine()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer != want && (t.Production || answer != "y") {
		return outcome{exitFailed, "nothing was changed"}
	}
	return nil
}

// confirmOne asks before a change of a single message or job, in a production context only.
func (s *session) confirmOne(question, topic string, t target) error {
	if !t.Production {
		return nil
	}
	return s.confirm(question, topic, t)
}
