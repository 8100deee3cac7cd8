package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soundEvidence is a job that sent three messages of a key, and nothing wrong.
func soundEvidence(at time.Time) *evidence {
	end := at.Add(time.Minute)
	j := &ended{
		id: "job", topic: "t.dlq.v1", state: "COMPLETED", order: "key", lanes: 1, bound: 3, matched: 3, retried: 3,
		startedAt: at.Add(-time.Minute), endedAt: &end,
	}
	e := &evidence{jobs: []*ended{j}, jobByID: map[string]*ended{"job": j}}
	for i := range int64(3) {
		e.letters = append(e.letters, &letter{
			id: fmt.Sprintf("m%d", i), source: place{topic: "t.dlq.v1", offset: i}, seq: i + 1, status: "RESOLVED", retryCount: 1,
			workflowID: "retry-all-t.dlq.v1", runID: "job", key: []byte("k"),
			copies: []sent{{place: place{topic: "t.v1", offset: i}, at: at}},
		})
	}
	return e
}

// The proof of TestChaos must find each kind of harm, and excuse only what a
// crash explains, or a stop that leaves lanes behind.
func TestChaosProofFindsEveryHarm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	again := func(l *letter, offset int64, at time.Time) {
		l.copies = append(l.copies, sent{place: place{topic: "t.v1", offset: offset}, at: at})
	}
	kill := window{what: "worker", from: at.Add(time.Second), to: at.Add(time.Second)}
	twice := func(e *evidence) { again(e.letters[2], 3, at.Add(4*time.Second)) }
	stop := func(topic string, status int, took time.Duration) []window {
		return stopWindow(topic, status, at.Add(time.Second), at.Add(time.Second).Add(took))
	}
	const mine, other = "t.dlq.v1", "other.dlq.v1"
	for name, test := range map[string]struct {
		harm    func(*evidence)
		windows []window
		want    string // empty when there is nothing to find
	}{
		"nothing":                 {harm: func(*evidence) {}},
		"never sent":              {harm: func(e *evidence) { e.letters[1].copies = nil }, want: "never sent"},
		"still open":              {harm: func(e *evidence) { e.letters[1].status = "RETRYING" }, want: "not RESOLVED"},
		"job left open":           {harm: func(e *evidence) { e.jobs[0].state = "PAUSED" }, want: "is left PAUSED"},
		"arrival out of order":    {harm: func(e *evidence) { e.letters[0].seq, e.letters[1].seq = 2, 1 }, want: "stored before"},
		"counters do not add up":  {harm: func(e *evidence) { e.jobs[0].skipped = 1 }, want: "matched 3, but"},
		"one counted too many":    {harm: func(e *evidence) { e.jobs[0].retried, e.jobs[0].matched = 4, 4 }, want: "counts 4 retried"},
		"retry count too high":    {harm: func(e *evidence) { e.letters[0].retryCount = 2 }, want: "retry count is not"},
		"beyond the bound":        {harm: func(e *evidence) { e.jobs[0].bound = 2 }, want: "scope"},
		"came back":               {harm: func(e *evidence) { e.jobs[0].cameBack = 1 }, want: "came back"},
		"sent twice in the calm":  {harm: func(e *evidence) { again(e.letters[2], 3, at.Add(time.Second)) }, want: "nothing to excuse"},
		"sent twice over a crash": {harm: twice, windows: []window{kill}},

		"sent twice over a pause":                         {harm: twice, windows: stop(mine, 200, 1400*time.Millisecond)},
		"sent twice over a pause in force late":           {harm: twice, windows: stop(mine, 202, 2*time.Second)},
		"sent twice over a pause without an answer":       {harm: twice, windows: stop(mine, 0, 10*time.Millisecond)},
		"sent twice over a pause that was quick":          {harm: twice, windows: stop(mine, 200, time.Second), want: "nothing to excuse"},
		"sent twice over a pause of a job that had ended": {harm: twice, windows: stop(mine, 409, 2*time.Second), want: "nothing to excuse"},
		"sent twice over a pause of no job":               {harm: twice, windows: stop(mine, 404, 2*time.Second), want: "nothing to excuse"},
		"sent twice over a pause of another topic":        {harm: twice, windows: stop(other, 200, 1400*time.Millisecond), want: "nothing to excuse"},
		"pauses of other topics allow no copies":          {harm: twice, windows: stop(other, 200, 1400*time.Millisecond), want: "the crashes excuse 0"},
		"sent after a pause was in force": {harm: func(e *evidence) {
			e.letters[2].copies[0].at = at.Add(4 * time.Second)
			again(e.letters[2], 3, at.Add(9*time.Second))
		}, windows: stop(mine, 200, 1400*time.Millisecond), want: "nothing to excuse"},
		"sent three times over one crash": {harm: func(e *evidence) {
			again(e.letters[2], 3, at.Add(4*time.Second))
			again(e.letters[2], 4, at.Add(4*time.Second))
		}, windows: []window{kill}, want: "2 too many, 1 excused"},
		"sent again long after a crash": {harm: func(e *evidence) {
			e.letters[2].copies[0].at = at.Add(2 * time.Second)
			again(e.letters[2], 3, at.Add(9*time.Second))
		}, windows: []window{kill}, want: "nothing to excuse"},
		"a crash without a job": {harm: func(e *evidence) {
			e.jobs[0].startedAt = at.Add(time.Hour)
			again(e.letters[2], 3, at.Add(4*time.Second))
		}, windows: []window{kill}, want: "the crashes excuse 0"},
		"out of order": {harm: func(e *evidence) {
			e.letters[0].copies[0].offset, e.letters[1].copies[0].offset = 1, 0
		}, want: "in one job"},
		"out of order, by the operator's choice": {harm: func(e *evidence) {
			e.letters[0].copies[0].offset, e.letters[1].copies[0].offset = 1, 0
			e.letters[0].workflowID, e.letters[0].bySingle, e.jobs[0].retried, e.jobs[0].matched = "retry-message-m0", true, 2, 2
		}},
		"only the repetition is out of order": {harm: func(e *evidence) { again(e.letters[0], 3, at.Add(4*time.Second)) }, windows: []window{kill}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, e := &chaos{t: t, journal: newJournal()}, soundEvidence(at)
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
