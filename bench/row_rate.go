package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

const (
	// firstRate is the first rate limit of the job, and secondRate the later rate limit, in
	// messages per second.
	firstRate, secondRate = 500, 200
	// rateTolerance is how far the messages of a second may differ from the new rate and still count as
	// this rate. A claim takes the messages of a tenth of a second, so a second contains nine to eleven
	// claims.
	rateTolerance = 0.15
	// rateTries limits the starts of a job. A job is started again if Temporal has given
	// all its lanes to one worker.
	rateTries = 8
)

// rateSizes are the durations of a window, and of the observation at the first and the second rate.
type rateSizes struct{ window, first, second time.Duration }

func (b *bench) rateSizes() rateSizes {
	if b.quick {
		return rateSizes{window: time.Second, first: 3 * time.Second, second: 3 * time.Second}
	}
	return rateSizes{window: 10 * time.Second, first: 15 * time.Second, second: 13 * time.Second}
}

// measureRate measures how exactly two workers keep the rate limit of one job, and how soon a
// change of the limit takes effect. It reads the times when the broker received the batches.
func (b *bench) measureRate(ctx context.Context) error {
	sizes := b.rateSizes()
	messages := 2 * int(firstRate*sizes.first.Seconds()+secondRate*sizes.second.Seconds())
	if err := b.template(ctx, "rate", seedTopic{name: bulkTopic, pending: messages}); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	var off, late spread
	for run := range b.runs {
		b.step("rate limit, run %d of %d", run+1, b.runs)
		found, err := b.rateOnce(ctx, sizes)
		if err != nil {
			return err
		}
		b.step("       %.3f off at %d/s, %.3f off at %d/s, changed after %s, by the busier worker %.0f %%",
			found.firstOff, firstRate, found.secondOff, secondRate, found.late, 100*found.busier)
		off, late = append(off, max(found.firstOff, found.secondOff)), append(late, found.late.Seconds())
	}
	worst := func(s spread) spread { return spread{slices.Max(s)} }
	b.add(row{number: 12, label: "rate limit, worst window",
		title: fmt.Sprintf("rate limit of a job with %d lanes on two workers: the deviation from the limit over any %s, worst of all runs",
			b.lanes, inSeconds(sizes.window)),
		ours: off.show(count), judged: worst(off), goal: goal{atMost: 0.05},
		notes: []string{fmt.Sprintf("%d/s for %s, then %d/s for %s; each message counts when the broker appends it, "+
			"and windows begin and end at any time, including the start of the job", firstRate, inSeconds(sizes.first), secondRate, inSeconds(sizes.second))}})
	b.add(row{number: 12, label: "rate limit, until a change shows",
		title: "from the PATCH of that limit to the end of the first second at the new rate, worst of all runs",
		ours:  late.show(seconds), judged: worst(late), format: seconds, goal: goal{atMost: 2},
		notes: []string{fmt.Sprintf("that second is included; it counts as the new rate if its messages match the rate within %.0f %%", 100*rateTolerance)}})
	return nil
}

func inSeconds(d time.Duration) string { return seconds(d.Seconds()) }

// rateResult is the result of one job.
type rateResult struct {
	firstOff, secondOff float64
	late                time.Duration
	// busier is the share of the messages that the busier worker sent.
	busier float64
}

func (b *bench) rateOnce(ctx context.Context, sizes rateSizes) (found rateResult, err error) {
	db, err := b.copyOf(ctx, "rate")
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, b.drop(ctx, db)) }()
	k, err := startWatched(ctx, 0, bulkTopic, bulkTopic+".dlq")
	if err != nil {
		return found, err
	}
	defer k.stop(ctx)
	s := b.newSite(db, k.broker, b.tuned)
	var base string
	for _, name := range []string{"worker", "worker", "api"} {
		p, startErr := b.start(ctx, s, name)
		if startErr != nil {
			return found, startErr
		}
		defer func() { err = errors.Join(err, p.kill()) }()
		base = p.base
	}
	defer http.DefaultClient.CloseIdleConnections()
	job, err := b.startShared(ctx, s, workflows.NewClient(s.temporal.client, s.queue, workflows.ClientOptions{}), k)
	if err != nil {
		return found, err
	}
	// The rest of the job is not needed.
	defer func() {
		err = errors.Join(err, s.temporal.client.TerminateWorkflow(ctx, job.WorkflowID, "", "measured"))
	}()
	appends, err := k.seen()
	if err != nil {
		return found, err
	}
	from := appends[0].at
	if err := pause(ctx, time.Until(from.Add(sizes.first))); err != nil {
		return found, err
	}
	changed := time.Now()
	if err := changeRate(ctx, base+"/api/v1/jobs/"+job.ID.String(), secondRate); err != nil {
		return found, err
	}
	if err := pause(ctx, time.Until(changed.Add(sizes.second))); err != nil {
		return found, err
	}
	until := time.Now()
	if appends, err = k.seen(); err != nil {
		return found, err
	}
	found.busier = busier(appends)
	if found.late, err = untilRate(appends, changed, until); err != nil {
		return found, err
	}
	found.firstOff = worstOff(appends, from, changed, sizes.window, firstRate)
	found.secondOff = worstOff(appends, changed.Add(found.late-time.Second), until, sizes.window, secondRate)
	return found, nil
}

// startShared starts a job and returns when both workers have sent some of its messages. Then k has only
// batches of this job.
func (b *bench) startShared(ctx context.Context, s *site, client *workflows.Client, k *watched) (dlq.Job, error) {
	for range rateTries {
		k.reset()
		job, err := startBulk(ctx, s.db, client, bulkTopic+".dlq", b.lanes, firstRate)
		if err != nil {
			return job, err
		}
		// After 1.5 s each lane has sent several pages.
		var appends []appended
		for deadline := time.Now().Add(10 * time.Second); len(appends) == 0 || time.Since(appends[0].at) < 1500*time.Millisecond; {
			if time.Now().After(deadline) {
				return job, errors.New("the job with a rate limit does not start")
			}
			if err := pause(ctx, crashPoll); err != nil {
				return job, err
			}
			if appends, err = k.seen(); err != nil {
				return job, err
			}
		}
		if busier(appends) < 1 {
			return job, nil
		}
		b.step("       one worker has all lanes; starting another job")
		if err := client.SteerJob(ctx, nil, job, dlq.Command{Name: dlq.CommandCancel}); err != nil {
			return job, err
		}
		_, _ = client.AwaitJob(ctx, job) // its error is that the job was cancelled
	}
	return dlq.Job{}, errors.New("one worker got all lanes every time")
}

// changeRate changes the job's rate limit over REST, like an operator.
func changeRate(ctx context.Context, job string, perSecond int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, job, strings.NewReader(fmt.Sprintf(`{"rate_limit":%d}`, perSecond)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// The status 202 is accepted too, since the batches at the broker show the change.
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 != 2 {
		return fmt.Errorf("change of the rate limit: %s: %s", response.Status, body)
	}
	return nil
}

// worstOff returns the largest deviation of the number of records in a window between two times, as a share
// of the expected number. The fullest window ends with an append, and the emptiest window begins just after
// an append.
func worstOff(appends []appended, from, until time.Time, window time.Duration, perSecond float64) float64 {
	want, worst := perSecond*window.Seconds(), 0.0
	for _, a := range appends {
		if begin := a.at.Add(-window); !begin.Before(from) && !a.at.After(until) {
			worst = max(worst, float64(recordsIn(appends, begin, a.at.Add(1)))/want-1)
		}
		if end := a.at.Add(window); !a.at.Before(from) && !end.After(until) {
			worst = max(worst, 1-float64(recordsIn(appends, a.at.Add(1), end))/want)
		}
	}
	return worst
}

// untilRate is the time from the change to the end of the first second at secondRate.
func untilRate(appends []appended, changed, until time.Time) (time.Duration, error) {
	for begin := changed; begin.Before(until.Add(-time.Second)); begin = begin.Add(5 * time.Millisecond) {
		end := begin.Add(time.Second)
		if math.Abs(float64(recordsIn(appends, begin, end))/secondRate-1) <= rateTolerance {
			return end.Sub(changed), nil
		}
	}
	return 0, fmt.Errorf("the rate of %d/s was not reached in %s", secondRate, until.Sub(changed))
}

// recordsIn counts the records of the interval [from, until).
func recordsIn(appends []appended, from, until time.Time) int {
	sum := 0
	for _, a := range appends {
		if !a.at.Before(from) && a.at.Before(until) {
			sum += a.records
		}
	}
	return sum
}

// busier is the share of the records that the busiest producer wrote.
func busier(appends []appended) float64 {
	sum, byProducer, most := 0, map[int64]int{}, 0
	for _, a := range appends {
		sum += a.records
		byProducer[a.producer] += a.records
		most = max(most, byProducer[a.producer])
	}
	return float64(most) / float64(sum)
}
