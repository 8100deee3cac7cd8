package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soundEvidence is a job that sent three messages of a key, without any violation.
func soundEvidence(at time.Time) *evidence {
	end := at.Add(time.Minute)
	j := &ended{
		job: job{
			ID: "job", Topic: "t.dlq.v1", State: "COMPLETED", Order: "key", Matched: 3, Retried: 3,
			StartedAt: at.Add(-time.Minute), EndedAt: &end,
		}, lanes: 1, bound: 3,
	}
	e := &evidence{jobs: []*ended{j}, jobByID: map[string]*ended{"job": j}}
	for i := range int64(3) {
		e.letters = append(e.letters, &letter{
			id: fmt.Sprintf("m%d", i), source: recordID{topic: "t.dlq.v1", offset: i}, seq: i + 1, status: "RESOLVED", retryCount: 1,
			workflowID: "retry-all-t.dlq.v1", runID: "job", key: []byte("k"),
			copies: []sent{{recordID: recordID{topic: "t.v1", offset: i}, at: at}},
		})
	}
	return e
}

// The proof of TestChaos must find each kind of violation, and must excuse only the copies that a crash
// explains.
func TestChaosProofFindsEveryHarm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	again := func(l *letter, offset int64, at time.Time) {
		l.copies = append(l.copies, sent{recordID: recordID{topic: "t.v1", offset: offset}, at: at})
	}
	kill := window{what: "kill-worker", from: at.Add(time.Second), to: at.Add(time.Second)}
	twice := func(e *evidence) { again(e.letters[2], 3, at.Add(4*time.Second)) }
	lasting := func(what string, from, to time.Duration) window {
		return window{what: what, from: at.Add(from), to: at.Add(to)}
	}
	byHand := func(status string, count, limit int) func(*evidence) {
		return func(e *evidence) {
			e.written = append(e.written, &letter{id: "w", status: status, retryCount: count, written: &handwritten{"PENDING", 0, limit}})
		}
	}
	for name, test := range map[string]struct {
		harm    func(*evidence)
		windows []window
		want    string // empty when there is no violation
	}{
		"nothing":                {harm: func(*evidence) {}},
		"never sent":             {harm: func(e *evidence) { e.letters[1].copies = nil }, want: "never sent"},
		"still open":             {harm: func(e *evidence) { e.letters[1].status = "RETRYING" }, want: "not RESOLVED"},
		"job left open":          {harm: func(e *evidence) { e.jobs[0].State = "PAUSED" }, want: "is left PAUSED"},
		"arrival out of order":   {harm: func(e *evidence) { e.letters[0].seq, e.letters[1].seq = 2, 1 }, want: "stored before"},
		"counters do not add up": {harm: func(e *evidence) { e.jobs[0].Skipped = 1 }, want: "matched 3, but"},
		"one counted too many":   {harm: func(e *evidence) { e.jobs[0].Retried, e.jobs[0].Matched = 4, 4 }, want: "counts 4 retried"},
		"retry count too high":   {harm: func(e *evidence) { e.letters[0].retryCount = 2 }, want: "retry count is not"},
		"an unknown workflow":    {harm: func(e *evidence) { e.letters[0].runID, e.jobs[0].Retried, e.jobs[0].Matched = "other", 2, 2 }, want: "an unknown workflow"},
		"a workflow that a restore forgot": {harm: func(e *evidence) {
			e.letters[0].runID, e.letters[0].retryCount, e.jobs[0].Retried, e.jobs[0].Matched = "other", 2, 2, 2
		}, windows: []window{lasting("restore", -time.Second, time.Second)}},
		"too few counted over a restore": {harm: func(e *evidence) { e.letters[0].failures = 1 }, windows: []window{lasting("restore", -time.Second, time.Second)}, want: "retry count is not"},
		"beyond the bound":               {harm: func(e *evidence) { e.jobs[0].bound = 2 }, want: "scope"},
		"came back":                      {harm: func(e *evidence) { e.jobs[0].CameBack = 1 }, want: "came back"},
		"sent twice in the calm":         {harm: func(e *evidence) { again(e.letters[2], 3, at.Add(time.Second)) }, want: "1 too many, 0 excused"},
		"sent twice over a crash":        {harm: twice, windows: []window{kill}},

		"sent twice over a row lock":             {harm: twice, windows: []window{lasting("rowlock", 0, time.Minute)}, want: "1 too many, 0 excused"},
		"sent twice over an index":               {harm: twice, windows: []window{lasting("index", 0, time.Minute)}, want: "1 too many, 0 excused"},
		"sent twice over a closed target":        {harm: twice, windows: []window{lasting("minisr", 0, time.Minute)}, want: "1 too many, 0 excused"},
		"sent twice over silence":                {harm: twice, windows: []window{lasting("silent-postgres", time.Second, 5*time.Second)}},
		"sent twice over a kill during an index": {harm: twice, windows: []window{lasting("index", time.Second, 30*time.Second), lasting("kill-worker", 20*time.Second, 20*time.Second)}},
		"sent twice over a kill after an index":  {harm: twice, windows: []window{lasting("index", time.Second, 5*time.Second), lasting("kill-worker", 20*time.Second, 20*time.Second)}, want: "1 too many, 0 excused"},
		"set back by hand":                       {harm: func(e *evidence) { twice(e); e.letters[2].byHand = true }, windows: []window{{what: "hand", from: at.Add(time.Second), to: at.Add(time.Second), message: "m2"}}},
		"another one set back by hand":           {harm: twice, windows: []window{{what: "hand", from: at.Add(time.Second), to: at.Add(time.Second), message: "m1"}}, want: "1 too many, 0 excused"},
		"counted by hand":                        {harm: func(e *evidence) { e.letters[0].retryCount, e.letters[0].byHand = 2, true }},
		"written by hand and left":               {harm: byHand("PENDING", 0, 3), want: "ended wrongly"},
		"written by hand and not sent":           {harm: byHand("RESOLVED", 1, 3), want: "ended wrongly"},
		"written by hand and given up":           {harm: byHand("DEAD", 2, 3), want: "ended wrongly"},
		"written by hand and used up":            {harm: byHand("PENDING", 0, 0)},
		"counted without an attempt":             {harm: byHand("DEAD", 3, 3), want: "never published was counted"},
		"a cancelled retry counted":              {harm: func(e *evidence) { e.letters[0].cancelled = []string{"1"} }, want: "never published was counted"},
		"a cancelled retry published": {harm: func(e *evidence) {
			e.letters[0].cancelled, e.letters[0].copies[0].count = []string{"1"}, "1"
		}},
		"sent three times over one crash": {harm: func(e *evidence) {
			again(e.letters[2], 3, at.Add(4*time.Second))
			again(e.letters[2], 4, at.Add(4*time.Second))
		}, windows: []window{kill}, want: "2 too many, 1 excused"},
		"sent again long after a crash": {harm: func(e *evidence) {
			e.letters[2].copies[0].at = at.Add(2 * time.Second)
			again(e.letters[2], 3, at.Add(9*time.Second))
		}, windows: []window{kill}, want: "1 too many, 0 excused"},
		"a crash without a job": {harm: func(e *evidence) {
			e.jobs[0].StartedAt = at.Add(time.Hour)
			again(e.letters[2], 3, at.Add(4*time.Second))
		}, windows: []window{kill}, want: "the crashes excuse 0"},
		"out of order": {harm: func(e *evidence) {
			e.letters[0].copies[0].offset, e.letters[1].copies[0].offset = 1, 0
		}, want: "in one job"},
		"out of order, and forgotten by a restore": {harm: func(e *evidence) {
			e.letters[0].copies[0].offset = 3
			again(e.letters[1], 4, at.Add(4*time.Second))
			again(e.letters[2], 5, at.Add(4*time.Second))
			e.letters[0].copies[0].at = at.Add(4 * time.Second)
		}, windows: []window{lasting("restore", -time.Second, time.Second)}},
		"sent again after a restore, and a later delivery recorded": {harm: func(e *evidence) {
			again(e.letters[0], 5, at.Add(4*time.Second))
			e.letters[1].late = true
		}, windows: []window{lasting("restore", -time.Second, time.Second)}},
		"out of order, by the operator's choice": {harm: func(e *evidence) {
			e.letters[0].copies[0].offset, e.letters[1].copies[0].offset = 1, 0
			e.letters[0].workflowID, e.letters[0].bySingle, e.jobs[0].Retried, e.jobs[0].Matched = "retry-message-m0", true, 2, 2
		}},
		"only the repetition is out of order": {harm: func(e *evidence) { again(e.letters[0], 3, at.Add(4*time.Second)) }, windows: []window{kill}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, e := &chaos{t: t, journal: newJournal(), hands: newHands()}, soundEvidence(at)
			test.harm(e)
			c.windows.insert(test.windows...)
			c.check(e)
			if found := strings.Join(c.journal.violations(), "\n"); test.want == "" {
				require.Empty(t, found)
			} else {
				require.Contains(t, found, test.want)
			}
		})
	}
}
