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
	// firstRate is what the job begins with and secondRate what it is changed
	// to, in messages per second.
	firstRate, secondRate = 500, 200
	// rateNear is how far one second may be off the new rate and still show
	// it: a claim takes a tenth of a second's worth, so that a second holds
	// nine to eleven of them.
	rateNear = 0.15
	// rateTries are how often a job is started again because Temporal gave all
	// of its lanes to one worker, where they stay for minutes.
	rateTries = 8
)

// rateSizes are how long a rate limit is watched, and in which windows.
type rateSizes struct{ window, first, second time.Duration }

func (b *bench) rateSizes() rateSizes {
	if b.quick {
		return rateSizes{window: time.Second, first: 3 * time.Second, second: 3 * time.Second}
	}
	return rateSizes{window: 10 * time.Second, first: 15 * time.Second, second: 13 * time.Second}
}

// measureRate watches, as the broker sees it, how well two workers together
// keep the rate limit of one job, and how soon they keep another.
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
		what: fmt.Sprintf("rate limit of a job with %d lanes on two workers: how far off the limit any %s are, the worst of all runs",
			b.lanes, inSeconds(sizes.window)),
		ours: off.show(count), judged: worst(off), goal: goal{atMost: 0.05},
		notes: []string{fmt.Sprintf("%d/s for %s, then %d/s for %s; each message at the moment when the broker appended it, "+
			"in windows that begin and end anywhere, the start of the job included", firstRate, inSeconds(sizes.first), secondRate, inSeconds(sizes.second))}})
	b.add(row{number: 12, label: "rate limit, until a change shows",
		what: "from the PATCH of that limit to the end of the first second at the new rate, the worst of all runs",
		ours: late.show(seconds), judged: worst(late), format: seconds, goal: goal{atMost: 2},
		notes: []string{fmt.Sprintf("that second itself is part of it; it shows the new rate when it holds its messages within %.0f %%", 100*rateNear)}})
	return nil
}

func inSeconds(d time.Duration) string { return seconds(d.Seconds()) }

// rateFound is what one job showed.
type rateFound struct {
	firstOff, secondOff float64
	late                time.Duration
	// busier is the part of the messages that the busier worker sent.
	busier float64
}

func (b *bench) rateOnce(ctx context.Context, sizes rateSizes) (found rateFound, err error) {
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
	job, err := b.startShared(ctx, s, workflows.NewClient(s.temporal.client, s.queue), k)
	if err != nil {
		return found, err
	}
	// The rest of the job is of no use.
	defer func() {
		err = errors.Join(err, s.temporal.client.TerminateWorkflow(ctx, workflows.RetryAllID(job), "", "measured"))
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
	if err := changeRate(ctx, base+"/api/v1/bulk-retries/"+job.String(), secondRate); err != nil {
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

// startShared starts the job and returns when both workers have sent some of it.
// What the broker remembers begins with this job.
func (b *bench) startShared(ctx context.Context, s *site, client *workflows.Client, k *watched) (dlq.ID, error) {
	for range rateTries {
		k.forgetSeen()
		job, err := startBulk(ctx, s.db, client, bulkTopic+".dlq", b.lanes, firstRate)
		if err != nil {
			return job, err
		}
		// Each lane has had its turn several times by then.
		var appends []appended
		for deadline := time.Now().Add(10 * time.Second); len(appends) == 0 || time.Since(appends[0].at) < 1500*time.Millisecond; {
			if time.Now().After(deadline) {
				return job, errors.New("the job with a rate limit does not begin")
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
		b.step("       one worker got all lanes; once more")
		if err := client.CancelRetryAll(ctx, job); err != nil {
			return job, err
		}
		_, _ = client.AwaitRetryAll(ctx, job) // its error is the cancellation
	}
	return dlq.ID{}, errors.New("one worker got all lanes every time")
}

// changeRate gives the job another rate limit, over REST as an operator does.
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
	// 202 says that it does not show yet, which the broker will tell.
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 != 2 {
		return fmt.Errorf("change of the rate limit: %s: %s", response.Status, body)
	}
	return nil
}

// worstOff is how far, as a part of the rate, the fullest or the emptiest window
// between two moments is off it. A window is fullest when it ends with an append,
// and emptiest when it begins just after one.
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

// untilRate is how long after a moment the first second at secondRate has passed.
func untilRate(appends []appended, changed, until time.Time) (time.Duration, error) {
	for begin := changed; begin.Before(until.Add(-time.Second)); begin = begin.Add(5 * time.Millisecond) {
		end := begin.Add(time.Second)
		if math.Abs(float64(recordsIn(appends, begin, end))/secondRate-1) <= rateNear {
			return end.Sub(changed), nil
		}
	}
	return 0, fmt.Errorf("the rate of %d/s was not reached in %s", secondRate, until.Sub(changed))
}

// recordsIn counts from a moment until before another.
func recordsIn(appends []appended, from, until time.Time) int {
	sum := 0
	for _, a := range appends {
		if !a.at.Before(from) && a.at.Before(until) {
			sum += a.records
		}
	}
	return sum
}

// busier is the part of the records that the busiest producer wrote.
func busier(appends []appended) float64 {
	sum, byProducer, most := 0, map[int64]int{}, 0
	for _, a := range appends {
		sum += a.records
		byProducer[a.producer] += a.records
		most = max(most, byProducer[a.producer])
	}
	return float64(most) / float64(sum)
}
