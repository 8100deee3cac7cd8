package demo

import (
	"fmt"
	"io"
)

// printer writes lines of text.
type printer struct{ out io.Writer }

func (p printer) line(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// printSummary counts the dead letters of the start and prints the next steps.
func (s *shop) printSummary(o *Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brief = false
	p := s.out
	total := 0
	for _, count := range s.dead {
		total += count
	}
	if s.hidden > 0 {
		p.line("  … and %d more.", s.hidden)
	}
	p.line("\n%d dead letters:", total)
	for _, r := range routes {
		p.line("  %4d in %-20s from %s", s.dead[r.dlq], r.dlq, r.topic)
	}
	if o.ReceiptsAddress != "" {
		p.line("  %4d in %-20s from %s, sent to http://%s", receiptLetters, receiptsDLQ, Receipts, o.ReceiptsAddress)
	}
	if o.BaseURL != "" {
		p.line(`
Look at them:
  export DLQ_URL=%[1]s PATH=$PWD/.build/bin:$PATH
  dlqctl topics list
  dlqctl messages list %[2]s
Send one message back, or one topic:
  dlqctl messages retry ID
  dlqctl retry %[2]s --all --follow
See every hop and every attempt of a message that came back:
  dlqctl messages chain ID`, o.BaseURL, orders.dlq)
	}
	if o.UIURL != "" {
		p.line("Every retry is a Temporal workflow: %s", o.UIURL)
	}
	if o.FixFile != "" {
		p.line("The shop's bug is fixed once this file exists: %s", o.FixFile)
	}
	if !o.Once {
		p.line("\nThe shop keeps running: it shows messages that come back, and produces an event every %s. Ctrl-C stops it.", o.Trickle)
	}
}
