-- dlq-db: retries of single messages, jobs over many messages, and the targets of deliveries

-- dlq_retry_attempts: the retries that ended without delivery, and the retries that had lost their
-- claim when their delivery was acknowledged. A row stays when its message moves to the archive, and
-- is deleted when the message is deleted or purged.
CREATE TABLE IF NOT EXISTS dlq.dlq_retry_attempts (
    id               BIGINT      GENERATED ALWAYS AS IDENTITY,
    message_id       UUID        NOT NULL,
    number           INT         NOT NULL,               -- the retry count of the claim
    workflow_id      TEXT        NOT NULL,               -- the workflow of the retry
    owner_token      TEXT        NOT NULL,               -- the token of the retry, as in dlq_messages
    started_at       TIMESTAMPTZ NOT NULL,               -- when the message was claimed
    ended_at         TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    result           VARCHAR(50) NOT NULL,               -- failed, rejected (no retry can succeed), or delivered
    category         VARCHAR(50) NOT NULL,               -- of the error
    error            TEXT        NOT NULL,
    target_id        INT,                                -- of a delivery, as in dlq_messages
    target_partition INT,
    target_offset    BIGINT,

    PRIMARY KEY (message_id, id)
);

-- Whether an earlier retry has delivered a message. The function is VOLATILE, so it sees what was committed while its statement
-- waited for a lock.
CREATE OR REPLACE FUNCTION dlq.was_delivered(p_message_id UUID) RETURNS BOOLEAN LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT FROM dlq.dlq_retry_attempts WHERE message_id = p_message_id AND result = 'delivered');
$$;

-- An earlier retry may have delivered a message that is RETRYING now. Such a message becomes RESOLVED instead of PENDING or DEAD,
-- even if somebody marks it dead. The message then has the workflow, the token and the target of the earlier retry.
CREATE OR REPLACE FUNCTION dlq.keep_delivery() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF dlq.was_delivered(NEW.id) THEN
        UPDATE dlq.dlq_messages m
        SET status = 'RESOLVED', resolution = 'delivered', workflow_id = d.workflow_id, owner_token = d.owner_token,
            target_id = d.target_id, target_partition = d.target_partition, target_offset = d.target_offset, updated_at = now()
        FROM (SELECT * FROM dlq.dlq_retry_attempts WHERE message_id = NEW.id AND result = 'delivered' ORDER BY id DESC LIMIT 1) AS d
        WHERE m.id = NEW.id AND m.status = NEW.status;
    END IF;
    RETURN NULL;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.keep_delivery() FROM PUBLIC;

CREATE OR REPLACE TRIGGER trg_dlq_messages_delivered
    AFTER UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (OLD.status = 'RETRYING' AND NEW.status IN ('PENDING', 'DEAD'))
    EXECUTE FUNCTION dlq.keep_delivery();

-- dlq_edits: the edited copy of each edited message. The original is RESOLVED with the resolution
-- 'replaced', and the previous_id of the copy is the original. A row stays when a message is deleted
-- or archived. The rows are few, since operators edit single messages.
CREATE TABLE IF NOT EXISTS dlq.dlq_edits (
    original_id UUID        PRIMARY KEY, -- a message has at most one edited copy
    copy_id     UUID        NOT NULL,
    edited_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),

    CONSTRAINT uq_dlq_edits_copy UNIQUE (copy_id)
);

-- dlq_exhausted_outbox: messages that have used up their retries (exhausted messages), and must still
-- be published to their archive topics. The transaction that exhausts a message adds a row. The worker
-- deletes the row after the archive topic has acknowledged the message. The order of the primary key
-- lets the worker read the messages of a dead-letter topic in their order of arrival. The rows of a
-- dead-letter topic without an archive topic stay, and do not slow down other topics.
CREATE TABLE IF NOT EXISTS dlq.dlq_exhausted_outbox (
    dlq_topic   VARCHAR(255) NOT NULL,
    seq         BIGINT       NOT NULL,               -- of the message
    message_id  UUID         NOT NULL,
    ended_at    TIMESTAMPTZ  NOT NULL DEFAULT NOW(), -- when the message ended; a revived message may end again
    retry_count INT          NOT NULL,               -- of the message at its end
    max_retries INT          NOT NULL,               -- of the message at its end
    error       TEXT         NOT NULL,               -- the last error

    PRIMARY KEY (dlq_topic, seq, message_id)
);

-- dlq_jobs: a row for each bulk retry, and for each bulk change (revive, mark dead, delete, restore). The
-- row has the scope of the job, its state and its progress. Each claim of a job with a rate limit or a
-- step limit updates the row. The fillfactor leaves room for such updates in the page of the row.
--
-- A bulk change has no lanes. It reads the messages of its scope status by status, and each status in the
-- order of created_at and seq, like the indexes of topics. A batch is a transaction. It locks the job's row,
-- reads messages after the cursor in the row, changes them, counts them and moves the cursor. So a batch
-- that is repeated after a crash counts no message twice.
CREATE TABLE IF NOT EXISTS dlq.dlq_jobs (
    id           UUID         PRIMARY KEY,                -- made by the program; also the token of the job's claims
    workflow_id  TEXT         NOT NULL,
    topic        VARCHAR(255) NOT NULL,                   -- an original or a dead-letter topic
    spec         JSONB        NOT NULL DEFAULT '{}',      -- the request: kind, filter, reason, and the first rate limit
    target       VARCHAR(255),                            -- of all messages; null while unknown, or if there are several
    rate_limit   INT          NOT NULL DEFAULT 0,         -- messages per second, 0 is no limit
    step_limit   BIGINT,                                  -- how many messages may still be claimed, null is no limit
    next_at      TIMESTAMPTZ  NOT NULL DEFAULT NOW(),     -- when the rate limit allows the next claim
    state        VARCHAR(50)  NOT NULL DEFAULT 'RUNNING',
    reason       TEXT         NOT NULL DEFAULT '',        -- why the job is paused, waiting, cancelled or failed
    lanes        INT          NOT NULL DEFAULT 0,         -- number of lanes; 0 for a bulk change
    upper_bound  BIGINT       NOT NULL,                   -- the last seq at the creation; later messages are not in the scope
    snapshot_at  TIMESTAMPTZ  NOT NULL,                   -- when the scope was fixed; messages that changed later are not in it
    matched      BIGINT       NOT NULL DEFAULT 0,         -- number of messages in the scope
    multi_target BOOLEAN      NOT NULL DEFAULT false,     -- whether the messages have several targets
    counted      BOOLEAN      NOT NULL DEFAULT false,     -- whether matched and multi_target are known
    changed      BIGINT       NOT NULL DEFAULT 0,         -- changed messages; the counts of a bulk retry are in dlq_job_lanes
    skipped      BIGINT       NOT NULL DEFAULT 0,         -- messages that were neither sent nor changed; known at the end
    came_back    BIGINT       NOT NULL DEFAULT 0,         -- messages that were sent and became dead letters again
    statuses_done     INT         NOT NULL DEFAULT 0,           -- how many statuses of the scope have been read
    cursor_created_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity', -- of the last message that was read in the present status
    cursor_seq        BIGINT      NOT NULL DEFAULT -9223372036854775808, -- of the same message
    started_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    ended_at     TIMESTAMPTZ,                             -- null before the end of the job

    -- A PAUSING or CANCELLING job claims nothing more, and ends the pages that it has claimed.
    CONSTRAINT chk_dlq_jobs_state
        CHECK (state IN ('RUNNING', 'PAUSING', 'PAUSED', 'CANCELLING', 'COMPLETED', 'CANCELLED', 'FAILED')),
    CONSTRAINT chk_dlq_jobs_paused CHECK (lanes > 0 OR state NOT IN ('PAUSING', 'PAUSED')), -- only a bulk retry can be paused
    CONSTRAINT chk_dlq_jobs_limits CHECK (rate_limit >= 0 AND step_limit >= 0)
) WITH (fillfactor = 50);

-- The first index is for the list of jobs, the newest first. The second index finds the jobs that have
-- not ended: a new job must not conflict with them.
CREATE INDEX IF NOT EXISTS idx_dlq_jobs_started_at ON dlq.dlq_jobs (started_at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_jobs_live ON dlq.dlq_jobs (started_at, id) WHERE ended_at IS NULL;

-- dlq_plans: jobs that are reviewed before their start. The job that starts from a plan has the plan's id. The
-- creation of a plan deletes up to 100 plans that expired more than a day ago.
CREATE TABLE IF NOT EXISTS dlq.dlq_plans (
    id          UUID        PRIMARY KEY,
    spec        JSONB       NOT NULL, -- of the job, as in dlq_jobs; likewise upper_bound and snapshot_at
    upper_bound BIGINT      NOT NULL,
    snapshot_at TIMESTAMPTZ NOT NULL,
    effect      JSONB       NOT NULL, -- counts of the messages that the job will send or change
    summary     JSONB       NOT NULL, -- the other numbers that the plan shows, and the ids of its sample
    expires_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_dlq_plans_expires_at ON dlq.dlq_plans (expires_at);

-- dlq_job_lanes: the parallel scans of each bulk retry. A lane has dealt with every message
-- up to its cursor, except the messages in its page and in its queues. The cursor never goes
-- back.
--
-- A row is updated twice for each page. While a long transaction is open, such as a pg_dump, PostgreSQL
-- keeps every version of the row, and a lookup by job and lane would read all versions. So each claim
-- increments pages, a column of the primary key, and a lookup starts at the highest value.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_lanes (
    job_id           UUID        NOT NULL REFERENCES dlq.dlq_jobs ON DELETE CASCADE,
    lane              INT         NOT NULL,               -- from 0
    first_bucket INT NOT NULL DEFAULT 0, last_bucket INT NOT NULL DEFAULT 1023, -- the lane's range of the low 10 bits of key_hash
    cursor            BIGINT      NOT NULL DEFAULT 0,     -- the seq up to which the lane has scanned
    retried           BIGINT      NOT NULL DEFAULT 0,     -- delivered
    failed            BIGINT      NOT NULL DEFAULT 0,     -- PENDING again
    dead              BIGINT      NOT NULL DEFAULT 0,     -- not delivered, and not retried again
    skipped           BIGINT      NOT NULL DEFAULT 0,     -- claimed, but not sent: an earlier message of the key failed
    epoch             INT         NOT NULL DEFAULT 0,     -- grows with each attempt; only the newest may claim and finalize
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    -- The messages that are claimed and not finalized. The array is written twice for each page, so
    -- compressing it would cost more than it saves.
    page              UUID[]      NOT NULL DEFAULT '{}',
    scheduled_at      TIMESTAMPTZ NOT NULL DEFAULT '-infinity', -- when Temporal scheduled the activity that has the lane
    attempt           INT         NOT NULL DEFAULT 0,     -- attempt of this activity; an earlier attempt may not take the lane
    waiting           BIGINT      NOT NULL DEFAULT 0,     -- messages that wait in queues
    pages             BIGINT      NOT NULL DEFAULT 0,     -- number of pages that the lane has claimed

    PRIMARY KEY (job_id, lane, pages)
) WITH (fillfactor = 50);
ALTER TABLE dlq.dlq_job_lanes ALTER COLUMN page SET STORAGE EXTERNAL;

CREATE OR REPLACE VIEW dlq.dlq_job_lanes_now AS
SELECT b.id AS job_id, n.lane, l.pages, l.page, l.cursor, l.waiting, l.retried, l.failed, l.dead, l.skipped, l.updated_at
FROM dlq.dlq_jobs b
CROSS JOIN LATERAL generate_series(0, least(greatest(b.lanes, 0), 1024) - 1) AS n (lane) -- a row edited by hand may have any number
CROSS JOIN LATERAL (
    SELECT *
    FROM dlq.dlq_job_lanes
    WHERE job_id = b.id AND lane = n.lane
    ORDER BY pages DESC
    LIMIT 1
) AS l;

-- dlq_job_samples: the counts of each job over time, as in dlq_jobs and dlq_job_lanes. The tick of a
-- sample is the age of its job in units of five seconds. Older samples of a long job are thinned out. The rate
-- of a running job is computed from the newest samples.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_samples (
    job_id  UUID NOT NULL REFERENCES dlq.dlq_jobs ON DELETE CASCADE,
    tick    BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL,
    retried BIGINT NOT NULL, failed BIGINT NOT NULL, dead BIGINT NOT NULL, changed BIGINT NOT NULL, skipped BIGINT NOT NULL,
    PRIMARY KEY (job_id, tick)
);

-- dlq_job_queues: queues of messages that a bulk retry cannot send now.
--
-- A queue belongs to a closed target, which refuses all messages for now, or to a record key whose first
-- message has to wait. For a closed target, both key_hash and lane are -1. A message is blocked as long as an
-- earlier message of its key waits in any queue of the job.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_queues (
    id        BIGINT       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id   UUID         NOT NULL REFERENCES dlq.dlq_jobs ON DELETE CASCADE,
    lane      INT          NOT NULL,               -- of the key, or -1
    topic     VARCHAR(255) NOT NULL,               -- target topic of the messages
    partition INT          NOT NULL,               -- of the target topic; -1 is the whole topic
    key_hash  INT          NOT NULL,               -- of the key, or -1
    closed    BOOLEAN      NOT NULL,               -- the target is closed: one message at a time tries it
    tries     INT          NOT NULL,               -- failed tries in a row
    due_at    TIMESTAMPTZ  NOT NULL,               -- when the next try is
    reason    TEXT         NOT NULL,               -- the last error
    category  VARCHAR(50)  NOT NULL,               -- of the last error

    CONSTRAINT uq_dlq_job_queues UNIQUE (job_id, topic, partition, key_hash)
);

-- For the queues of a lane that are due, and for the closed targets of a job.
CREATE INDEX IF NOT EXISTS idx_dlq_job_queues_due ON dlq.dlq_job_queues (job_id, lane, due_at);
CREATE INDEX IF NOT EXISTS idx_dlq_job_queues_closed ON dlq.dlq_job_queues (job_id) WHERE closed;

-- dlq_job_waiting: the messages in the queues. They are PENDING, and not counted as retried, failed, dead or skipped yet.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_waiting (
    job_id    UUID   NOT NULL,
    queue_id   BIGINT NOT NULL,
    lane       INT    NOT NULL,
    seq        BIGINT NOT NULL, -- of the message; likewise message_id and key_hash
    message_id UUID   NOT NULL,
    key_hash   INT    NOT NULL,

    PRIMARY KEY (job_id, queue_id, lane, seq, message_id) -- rows that were copied by hand may share a seq
);

-- Finds earlier messages of a key that wait.
CREATE INDEX IF NOT EXISTS idx_dlq_job_waiting_key ON dlq.dlq_job_waiting (job_id, key_hash, seq);

-- dlq_job_blocked_keys: the record keys of messages that failed in a bulk retry. The job skips the
-- later messages of these keys.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_blocked_keys (
    job_id  UUID         NOT NULL,
    key_hash INT          NOT NULL,
    topic    VARCHAR(255) NOT NULL, -- the target of the message
    key      BYTEA        NOT NULL  -- may be too long for an index, so the index has the hash
);
CREATE INDEX IF NOT EXISTS idx_dlq_job_blocked_keys ON dlq.dlq_job_blocked_keys (job_id, key_hash);

-- dlq_retrying: the ids of all RETRYING messages. The view may also have ids of messages whose retry
-- has ended, and may have an id twice.
CREATE OR REPLACE VIEW dlq.dlq_retrying AS
SELECT id
FROM dlq.dlq_messages
WHERE status = 'RETRYING' AND NOT in_page
UNION ALL
SELECT p.id
FROM dlq.dlq_jobs b
JOIN dlq.dlq_job_lanes_now l ON l.job_id = b.id
CROSS JOIN LATERAL unnest(l.page) AS p (id)
WHERE b.ended_at IS NULL;

-- After the row of a lane was deleted, or its job has ended, no lane finalizes the messages of its page.
-- The messages that are still RETRYING leave the page.
CREATE OR REPLACE FUNCTION dlq.abandon_page() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE dlq.dlq_messages SET in_page = false WHERE id = ANY (OLD.page) AND status = 'RETRYING';
    RETURN NULL;
END;
$$;
CREATE OR REPLACE TRIGGER trg_dlq_job_lanes_deleted
    AFTER DELETE ON dlq.dlq_job_lanes
    FOR EACH ROW
    WHEN (OLD.page <> '{}')
    EXECUTE FUNCTION dlq.abandon_page();

-- The lock waits for claims that are about to commit. A later claim finds that the job has ended.
CREATE OR REPLACE FUNCTION dlq.abandon_pages() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM dlq.dlq_job_lanes WHERE job_id = NEW.id FOR UPDATE;
    UPDATE dlq.dlq_messages SET in_page = false
    WHERE id = ANY (ARRAY(SELECT unnest(page) FROM dlq.dlq_job_lanes_now WHERE job_id = NEW.id)) AND status = 'RETRYING';
    RETURN NULL;
END;
$$;
CREATE OR REPLACE TRIGGER trg_dlq_jobs_ended
    AFTER UPDATE ON dlq.dlq_jobs
    FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
    EXECUTE FUNCTION dlq.abandon_pages();

-- dlq_targets: where the messages of each dead-letter topic were delivered. A topic that was deleted and created
-- again has another topic id, and is another target. The messages of a target can come back into some dead-letter
-- topics. The committed offsets of a target are stored after ingest has read these topics up to the time when they were fetched.
CREATE TABLE IF NOT EXISTS dlq.dlq_targets (
    id           INT          GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic        TEXT         NOT NULL,               -- a topic, or http:NAME for an endpoint
    topic_id     UUID,                                -- Kafka's; null for endpoints, and when unknown
    changed      BOOLEAN      NOT NULL DEFAULT false, -- no topic has this id any more, so the offsets mean nothing
    dlq_topic    VARCHAR(255) NOT NULL DEFAULT '',    -- of the messages
    watermark_at TIMESTAMPTZ,                         -- when the stored offsets were fetched; null without offsets

    CONSTRAINT uq_dlq_targets UNIQUE NULLS NOT DISTINCT (topic, topic_id, dlq_topic)
) WITH (fillfactor = 50);

-- dlq_watermarks: the committed offsets of consumer groups. A delivered message is verified when its
-- consumer group has committed an offset beyond the delivered record.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermarks (
    consumer_group   TEXT   NOT NULL,
    target_id        INT    NOT NULL, -- of dlq_targets
    partition        INT    NOT NULL,
    committed_offset BIGINT NOT NULL, -- of the next record to read

    PRIMARY KEY (consumer_group, target_id, partition)
) WITH (fillfactor = 50);

-- dlq_watermark_groups: the consumer groups whose offsets were fetched.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermark_groups (
    consumer_group TEXT        PRIMARY KEY,
    error          TEXT        NOT NULL,              -- why Kafka refused the offsets, or ''
    since          TIMESTAMPTZ NOT NULL DEFAULT NOW() -- every fetch since then has included the group
);

-- dlq_watermark_lease: a single row. It names the process that may write watermarks.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermark_lease (
    only_row   BOOLEAN     PRIMARY KEY DEFAULT true CHECK (only_row),
    holder     UUID        NOT NULL,
    epoch      BIGINT      NOT NULL, -- grows with each change of the holder
    expires_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);
