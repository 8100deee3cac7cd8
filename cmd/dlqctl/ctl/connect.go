package ctl

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dlqmanager/client"
)

// requestTimeout is longer than the server waits for a job or a retry before it answers a request.
const requestTimeout = 90 * time.Second

// connect makes the client for the server of this run.
func (s *session) connect() error {
	if err := s.findContext(); err != nil {
		return err
	}
	_, source := s.target.signIn()
	if source == nil && s.target.OpenID != nil {
		flow, err := s.deviceFlow()
		if err != nil {
			return err
		}
		source = flow
	}
	return s.connectWith(source)
}

func (s *session) connectWith(source client.TokenSource) error {
	transport, err := s.target.transport(x509.NewCertPool())
	if err != nil {
		return err
	}
	s.client, err = client.New(s.target.Server, client.Config{
		// Redirects are not followed, so the token goes to no other address.
		HTTP: &http.Client{
			Transport: transport, Timeout: requestTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Token: source, UserAgent: "dlqctl/" + s.Version, Retries: s.retries, Unreachable: s.unreachable,
	})
	if err != nil {
		return usageError{err}
	}
	return nil
}

// transport trusts the certificates of the context, in addition to the certificates of trusted. It is nil, which stands for
// Go's default, if the context has no certificates.
func (t target) transport(trusted *x509.CertPool) (http.RoundTripper, error) {
	if t.CAFile == "" {
		return nil, nil //nolint:nilnil // see above
	}
	content, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("the certificates of the context: %w", err)
	}
	if !trusted.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s has no certificate in PEM", t.CAFile)
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
	}, nil
}

// showing makes the function of a command that shows an answer of the server. It checks the flags of the output before the
// first request.
func (s *session) showing(v view, run func(cmd *cobra.Command, args []string, p *printer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p, err := s.printer(v)
		if err != nil {
			return err
		}
		if err := s.connect(); err != nil {
			return err
		}
		return run(cmd, args, p)
	}
}

// unreachable tells the person once in each outage that the API is away, and once that it answers again.
func (s *session) unreachable(err error) {
	switch {
	case err == nil && s.away:
		s.note("The API answers again.")
	case err != nil && !s.away:
		s.note("The API is away; dlqctl goes on trying: " + err.Error())
	}
	s.away = err != nil
}

// note tells the person something that is not part of the output.
func (s *session) note(text string) {
	s.endLine()
	fmt.Fprintln(s.Stderr, printable(text))
}

// endLine ends the line of a progress bar, so that the next text begins on a new line.
func (s *session) endLine() {
	if s.drawn {
		fmt.Fprintln(s.out)
	}
	s.drawn = false
}

// terminal tells whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// readLine reads a line from the standard input, byte by byte, so that it reads no byte after the line. The line is empty at
// the end of the input.
func (s *session) readLine() (string, error) {
	line, err := bufio.NewReaderSize(oneByte{s.Stdin}, 16).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// canAsk tells whether a person can see a question and answer it.
func (s *session) canAsk() bool { return terminal(s.Stdin) && terminal(s.Stderr) }

// ask asks a person, and waits for the answer until ctx ends.
func (s *session) ask(ctx context.Context, question string) (string, error) {
	s.endLine()
	fmt.Fprint(s.Stderr, printable(question))
	var line string
	err := await(ctx, func() (err error) {
		line, err = s.readLine()
		return err
	})
	if ctx.Err() != nil {
		fmt.Fprintln(s.Stderr)
	}
	if err != nil {
		return "", err
	}
	return line, nil
}

// await waits until a call has ended, or until ctx ends. It is for calls without a context, such as a read from a terminal.
// After an error the call may still be running, so the caller must not use its results.
func await(ctx context.Context, call func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:min(1, len(p))]) }

// confirm asks the person before a change, unless --yes is given. In a production context the person must type the name of the
// topic. Without a terminal, the change needs --yes.
func (s *session) confirm(ctx context.Context, question, topic string) error {
	if s.flags.yes {
		return nil
	}
	if !s.canAsk() {
		return usageError{fmt.Errorf("%s\nNobody can be asked here: add --yes", question)}
	}
	want, ask := "yes", question+" Type yes: "
	if s.target.Production {
		want, ask = topic, question+" This is production. Type the name of the topic: "
	}
	answer, err := s.ask(ctx, ask)
	if err != nil {
		return err
	}
	if answer == "" || answer != want && (s.target.Production || answer != "y") {
		return outcome{exitFailed, "nothing was changed"}
	}
	return nil
}

// doubt handles the error of a change. If the server may have made the change, it names the command that shows the result.
func (s *session) doubt(err error, show, id string) error {
	if show != "" && mayHaveHappened(err) {
		s.note("It is not known whether the server has made the change. Look with: dlqctl " + show + " " + id)
	}
	return err
}

// mayHaveHappened tells whether the server may have made a change although its request failed.
func mayHaveHappened(err error) bool {
	if answered, ok := errors.AsType[*client.APIError](err); ok {
		return answered.Status >= http.StatusInternalServerError
	}
	if connection, ok := errors.AsType[*net.OpError](err); ok && connection.Op == "dial" {
		return false
	}
	if _, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err); isUntrusted {
		return false
	}
	_, isSent := errors.AsType[*url.Error](err)
	return isSent || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errInterrupted) || errors.Is(err, errTimeOver)
}
