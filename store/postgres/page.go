package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// NextPage ends the page in hand, as FinalizePage does, with the outcomes of its messages. In the same transaction it
// claims the lane's next messages in the order of arrival, at most as many as dlq.Listing allows. It claims from a queue
// that is due, unless scan and lane.ScanFirst are both set. If it claims from no queue, and scan is set, it claims the next
// messages of the scope and moves the cursor past them.
//
// With scan, an empty claim means that the lane is done. A claim is empty if Page, Wait, Next, StepLimitReached and Stopped
// are all unset. The error is dlq.ErrBlocked when another transaction does not release a lock in time, and
// dlq.ErrUnfinished when the lane has claimed messages that outcomes does not name.
func (s *Store) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	t, err := s.endPage(ctx, &lane, outcomes, true, scan)
	if errors.Is(err, dlq.ErrFenced) {
		return dlq.LaneClaim{Stopped: true}, t.result, nil
	}
	return t.claim, t.result, err
}

// FinalizePage ends claims of a lane's page, records the failed retries and the queues, and adds to the lane's
// counters, in one transaction. A message that the lane no longer owns is neither changed nor counted, unless it was delivered:
// see keepLate. The error is dlq.ErrFenced when a newer attempt has the lane, and dlq.ErrBlocked when another
// transaction holds a lock for a second. Even with dlq.ErrFenced, deliveries are recorded.
func (s *Store) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	t, err := s.endPage(ctx, &lane, outcomes, false, false)
	return t.result, err
}

// endPage runs a step, and also records the deliveries of messages that the lane no longer owns.
func (s *Store) endPage(ctx context.Context, lane *dlq.Lane, outcomes []dlq.PageOutcome, claims, scans bool) (*step, error) {
	t, err := s.step(ctx, lane, outcomes, claims, scans)
	if err != nil && !errors.Is(err, dlq.ErrFenced) || t.result.Ended == len(outcomes) {
		return t, err
	}
	kept, counted, lateErr := s.keepLate(ctx, lane, outcomes)
	if err == nil && lateErr == nil {
		t.result.Ended += kept
		t.result.Counts.Retried += counted
	}
	return t, cmp.Or(lateErr, err)
}

// step is a transaction of a lane: it ends the page in hand, and claims the next page. It first locks the messages whose
// claims end, then the job's row and the lane's row, and last the messages that it claims. The wait for the messages whose
// claims end may be long. A pause of the job needs the two rows, so the step locks the rows only after this wait.
type step struct {
	*Store
	lane     *dlq.Lane
	conn     *pgxpool.Conn
	args     pgx.NamedArgs
	outcomes []dlq.PageOutcome // sorted by id, each message once
	claims   bool
	scans    bool // the step may also claim messages after the cursor
	isLocked bool // the job has limits, and its row is locked

	row       laneRow
	known     laneRow // the row as it was read
	page      [][16]byte
	knownPage [][16]byte
	job       jobOfLane
	ended     map[dlq.ID]*dlq.EndedClaim
	requeued  int            // how many messages of the page in hand go into queues
	settled   dlq.Settlement // empty after it was written
	unnamed   [][16]byte     // messages whose target is not in dlq_targets yet
	// queue is the queue of the lane that is due first; nil if the lane has none.
	queue   *laneQueue
	listing dlq.Listing
	// queueOf has the queue id of each candidate; the map is nil if the candidates follow the cursor.
	queueOf map[dlq.ID]int64
	// places are the ctids in dlq_messages of the candidates that can be claimed.
	places map[dlq.ID]pgtype.TID
	// mustLock is set if the candidates have to be locked before the decision. See look.
	mustLock bool
	plan     dlq.Plan
	claim    dlq.LaneClaim
	result   dlq.PageResult
}

// laneRow is the row of a lane without its page.
type laneRow struct {
	pages, cursor, waiting int64
	counts                 dlq.JobCounts
}

type jobOfLane struct {
	isRunning bool
	limits    dlq.JobLimits
	now       time.Time
	hasQueues bool
	// hasOthers is set if other jobs retry messages.
	hasOthers bool
}

type laneQueue struct {
	dlq.Queue
	id       int64
	isClosed bool
}

// errOvertaken says that a claim without locks failed because of another transaction. The step is rolled back and runs
// again, and then locks the messages before it claims them. PostgreSQL itself makes the claim fail, so that COMMIT can
// follow the claim in the same round trip.
var errOvertaken = errors.New("another transaction has changed a message, or retries a message of its key")

// nextClaimDelay is the Wait of a claim that has no page although the lane is not done.
const nextClaimDelay = time.Millisecond

// step runs a step of a lane. If claims is false, the step only ends the page in hand.
func (s *Store) step(ctx context.Context, lane *dlq.Lane, outcomes []dlq.PageOutcome, claims, scans bool) (*step, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t := &step{}
	mustLock := false
	err := retryOnConflict(func() error {
		return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			*t = step{Store: s, lane: lane, conn: conn, args: s.laneArgs(lane), outcomes: inOrder(outcomes), claims: claims, scans: scans, mustLock: mustLock}
			err := t.run(ctx)
			mustLock = mustLock || errors.Is(err, errOvertaken)
			if err != nil && conn.Conn().PgConn().TxStatus() != 'I' {
				rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				_, rollbackErr := conn.Exec(rollback, `ROLLBACK`)
				cancel()
				err = errors.Join(err, rollbackErr)
			}
			return err
		})
	})
	return t, wrap("send page", err)
}

// inOrder sorts outcomes by id, so that two steps that end the same page do not deadlock. When a message has several
// outcomes, the first outcome counts.
func inOrder(outcomes []dlq.PageOutcome) []dlq.PageOutcome {
	sorted := slices.Clone(outcomes)
	slices.SortStableFunc(sorted, func(a, b dlq.PageOutcome) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return slices.CompactFunc(sorted, func(a, b dlq.PageOutcome) bool { return a.ID == b.ID })
}

// laneArgs are the parameters that the statements of a lane share.
func (s *Store) laneArgs(lane *dlq.Lane) pgx.NamedArgs {
	args := s.bulkArgs(&lane.Spec)
	maps.Copy(args, pgx.NamedArgs{"job": uuid(lane.Job), "lane": lane.Number, "epoch": lane.Epoch, "upper_bound": lane.UpperBound, "end": lane.UpperBound,
		"requested": lane.Spec.TargetTopic, "from_queue": false, "queues": []int64{},
		"workflow_id": lane.Owner.WorkflowID, "token": lane.Owner.Token})
	return args
}

func (t *step) run(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	t.settled = dlq.Settle(t.outcomes, t.ended)
	if err := t.settle(ctx); err != nil {
		return err
	}
	if t.claims {
		if err := t.readQueues(ctx); err != nil {
			return err
		}
		if err := t.choose(ctx); err != nil {
			return err
		}
	}
	return t.write(ctx)
}

// with copies the lane's parameters, and adds the parameters in the map more to the copy.
func (t *step) with(more pgx.NamedArgs) pgx.NamedArgs {
	args := maps.Clone(t.args)
	maps.Copy(args, more)
	return args
}

func (t *step) send(ctx context.Context, queue func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	queue(batch)
	if batch.Len() == 0 {
		return nil
	}
	for _, query := range batch.QueuedQueries {
		if len(query.Arguments) == 0 {
			continue
		}
		if args, isNamed := query.Arguments[0].(pgx.NamedArgs); isNamed {
			query.Arguments[0] = pageArgs(args)
		}
	}
	return t.conn.SendBatch(ctx, batch).Close()
}

// queueRows adds a statement to the batch. For each row of its result, the columns go into targets and row is called.
func queueRows(batch *pgx.Batch, sql string, args pgx.NamedArgs, targets []any, row func()) {
	batch.Queue(sql, args).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, targets, func() error { row(); return nil })
		return err
	})
}

// ClaimedPage returns the messages that the lane has claimed and not finalized, in the order of arrival, up to
// dlq.PageBytes. If the first message is larger, ClaimedPage returns this message alone. Messages of more than the given
// number of bytes come without their records.
func (s *Store) ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (claim dlq.LaneClaim, err error) {
	t := &step{Store: s, lane: &lane, args: s.laneArgs(&lane)}
	owned := dlq.Plan{}
	var count int
	err = s.batch(ctx, "read claimed page", func(batch *pgx.Batch) {
		owned.Claim = nil
		batch.Queue(lanePlanSQL)
		t.queueCandidates(batch, ownedSQL, []any{&count}, func(m dlq.Candidate) {
			m.RetryCount = count
			owned.Claim = append(owned.Claim, m)
		})
	})
	if err != nil || len(owned.Claim) == 0 {
		return claim, err
	}
	slices.SortFunc(owned.Claim, bySeq)
	first := dlq.Listing{Candidates: owned.Claim, Quota: len(owned.Claim)}
	first.Fit()
	owned.Claim = first.Candidates
	claim.Bytes = owned.Bytes()
	args := t.with(candidateArgs(owned.Claim))
	page, byID := envelopesOf(owned.Claim)
	err = s.batch(ctx, "read claimed page", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		queueBlocked(batch, args, byID)
		if claim.Bytes <= bytes {
			queueRecords(batch, args, byID)
		}
	})
	if claim.Bytes <= bytes {
		page = slices.DeleteFunc(page, func(e dlq.PageEnvelope) bool { return byID[e.ID] != nil }) // deleted meanwhile
	}
	claim.Page = page
	return claim, err
}

// envelopesOf makes a page of messages, whose records are not read yet.
func envelopesOf(messages []dlq.Candidate) (page []dlq.PageEnvelope, byID map[dlq.ID]*dlq.PageEnvelope) {
	page, byID = make([]dlq.PageEnvelope, len(messages)), make(map[dlq.ID]*dlq.PageEnvelope, len(messages))
	for i := range messages {
		m := &messages[i]
		page[i].ID, page[i].Seq, page[i].OriginalTopic, page[i].RetryCount = m.ID, m.Seq, m.OriginalTopic, m.RetryCount
		byID[m.ID] = &page[i]
	}
	return page, byID
}

// queueBlocked marks the messages whose key has an earlier message that failed in this job.
func queueBlocked(batch *pgx.Batch, args pgx.NamedArgs, byID map[dlq.ID]*dlq.PageEnvelope) {
	var id dlq.ID
	queueRows(batch, failedKeysSQL, args, []any{(*[16]byte)(&id)}, func() { byID[id].Blocked = true })
}

// queueRecords reads the records of messages, and removes from byID the messages that it finds.
func queueRecords(batch *pgx.Batch, args pgx.NamedArgs, byID map[dlq.ID]*dlq.PageEnvelope) {
	var id dlq.ID
	var r dlq.Record
	var headers []byte
	queueRows(batch, recordsSQL, args, []any{(*[16]byte)(&id), &r.Key, &r.Value, &headers, instant{&r.Timestamp}}, func() {
		e := byID[id]
		e.Record = r
		e.Record.Headers, e.Unreadable = readHeaders(id, headers)
		delete(byID, id)
	})
}
