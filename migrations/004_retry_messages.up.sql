-- dlq-db: retries of a message, jobs over many, and where messages went

-- dlq_retry_attempts: the retries that ended without delivery, and the retries whose delivery was
-- acknowledged after they had lost their claim. They stay when their message moves to the archive,
-- and are deleted when the message is deleted or purged.
CREATE TABLE IF NOT EXISTS dlq.dlq_retry_attempts (
    id               BIGINT      GENERATED ALWAYS AS IDENTITY,
    message_id       UUID        NOT NULL,
    number           INT         NOT NULL,               -- the retry count of the claim
    workflow_id      TEXT        NOT NULL,               -- the owner of that retry, as in dlq_messages
    owner_token      TEXT        NOT NULL,               -- likewise: the claim's token
    started_at       TIMESTAMPTZ NOT NULL,               -- when the message was claimed
    ended_at         TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    result           VARCHAR(50) NOT NULL,               -- failed, rejected when no retry can work, or delivered
    category         VARCHAR(50) NOT NULL,               -- of the error
    error            TEXT        NOT NULL,
    target_id        INT,                                -- of a delivery, as in dlq_messages
    target_partition INT,
    target_offset    BIGINT,

    PRIMARY KEY (message_id, id)
);

-- A message that an earlier retry has delivered does not become PENDING or DEAD, however the present retry
-- ends, and even if somebody marks the message dead. It becomes RESOLVED, and belongs to the retry that delivered it.
CREATE OR REPLACE FUNCTION dlq.keep_delivery() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE dlq.dlq_messages m
    SET status = 'RESOLVED', resolution = 'delivered', workflow_id = d.workflow_id, owner_token = d.owner_token,
        target_id = d.target_id, target_partition = d.target_partition, target_offset = d.target_offset, updated_at = now()
    FROM (SELECT * FROM dlq.dlq_retry_attempts WHERE message_id = NEW.id AND result = 'delivered' ORDER BY id DESC LIMIT 1) AS d
    WHERE m.id = NEW.id AND m.status = NEW.status;
    RETURN NULL;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.keep_delivery() FROM PUBLIC;

CREATE OR REPLACE TRIGGER trg_dlq_messages_delivered
    AFTER UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (OLD.status = 'RETRYING' AND NEW.status IN ('PENDING', 'DEAD'))
    EXECUTE FUNCTION dlq.keep_delivery();

-- dlq_edits: which message an edited copy has replaced. The original is RESOLVED with the
-- resolution replaced, and is the previous_id of the copy. The rows stay when a message is
-- deleted or archived: they are few, since operators edit single messages.
CREATE TABLE IF NOT EXISTS dlq.dlq_edits (
    original_id UUID        PRIMARY KEY, -- a message has a single copy
    copy_id     UUID        NOT NULL,
    edited_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),

    CONSTRAINT uq_dlq_edits_copy UNIQUE (copy_id)
);

-- dlq_exhausted_outbox: exhausted messages that must still be published to their archive topics.
-- The transaction in which a message has used up its retries adds a row, and the worker deletes
-- it after the archive topic has acknowledged the message. The key lets the worker read the
-- messages of a topic in their order of arrival. A topic without an archive topic keeps its rows
-- and does not slow down the rest.
CREATE TABLE IF NOT EXISTS dlq.dlq_exhausted_outbox (
    dlq_topic   VARCHAR(255) NOT NULL,
    seq         BIGINT       NOT NULL,               -- of the message
    message_id  UUID         NOT NULL,
    ended_at    TIMESTAMPTZ  NOT NULL DEFAULT NOW(), -- tells the end of a revived message from an earlier end
    retry_count INT          NOT NULL,               -- of the message at its end
    max_retries INT          NOT NULL,               -- likewise
    error       TEXT         NOT NULL,               -- the last error

    PRIMARY KEY (dlq_topic, seq, message_id)
);

-- dlq_jobs: each retry or change of many messages (revive, mark dead, delete, restore), its frozen
-- scope, its state and its progress. A throttled job updates its row for each page, in place while
-- the page of the table has room.
--
-- A job that changes messages has no lanes. It reads the messages of its scope by status, and in
-- each status by created_at and seq, as the indexes of topics are sorted. Each batch is a
-- transaction that locks the row, continues at its cursor, changes messages, counts them and moves
-- the cursor. So a batch that is repeated after a crash counts nothing twice.
CREATE TABLE IF NOT EXISTS dlq.dlq_jobs (
    id           UUID         PRIMARY KEY,                -- made by whoever asks for the job; also the token of its claims
    workflow_id  TEXT         NOT NULL,
    topic        VARCHAR(255) NOT NULL,                   -- an original or a dead-letter topic
    spec         JSONB        NOT NULL DEFAULT '{}',      -- the request: kind, filter, reason, and the first rate limit
    target       VARCHAR(255),                            -- that all messages go to; null while unknown, or when there are many
    rate_limit   INT          NOT NULL DEFAULT 0,         -- messages per second, 0 is no limit
    step_limit   BIGINT,                                  -- how many messages may still be claimed, null is no limit
    next_at      TIMESTAMPTZ  NOT NULL DEFAULT NOW(),     -- when the rate limit allows the next claim
    state        VARCHAR(50)  NOT NULL DEFAULT 'RUNNING',
    reason       TEXT         NOT NULL DEFAULT '',        -- why it is paused, waiting, cancelled or failed
    lanes        INT          NOT NULL DEFAULT 0,         -- of a retry
    upper_bound  BIGINT       NOT NULL,                   -- the last seq that was given out at the start; later arrivals are not taken
    snapshot_at  TIMESTAMPTZ  NOT NULL,                   -- when its scope was fixed; messages that changed later are not taken
    matched      BIGINT       NOT NULL DEFAULT 0,         -- how many messages its scope has
    multi_target BOOLEAN      NOT NULL DEFAULT false,     -- whether its messages have several targets
    counted      BOOLEAN      NOT NULL DEFAULT false,     -- whether matched and multi_target are known
    changed      BIGINT       NOT NULL DEFAULT 0,         -- messages that it has changed; the lanes of a retry have its counts
    skipped      BIGINT       NOT NULL DEFAULT 0,         -- matched, and neither claimed nor changed; known at the end
    came_back    BIGINT       NOT NULL DEFAULT 0,         -- sent, and dead letters again
    statuses_done     INT         NOT NULL DEFAULT 0,           -- how many statuses of the scope have been read
    cursor_created_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity', -- of the last message that was read in the present status
    cursor_seq        BIGINT      NOT NULL DEFAULT -9223372036854775808, -- likewise
    started_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    ended_at     TIMESTAMPTZ,                             -- null until it has ended

    -- PAUSING and CANCELLING claim nothing more, while the pages in hand come to an end.
    CONSTRAINT chk_dlq_jobs_state
        CHECK (state IN ('RUNNING', 'PAUSING', 'PAUSED', 'CANCELLING', 'COMPLETED', 'CANCELLED', 'FAILED')),
    CONSTRAINT chk_dlq_jobs_paused CHECK (lanes > 0 OR state NOT IN ('PAUSING', 'PAUSED')), -- only a retry is paused
    CONSTRAINT chk_dlq_jobs_limits CHECK (rate_limit >= 0 AND step_limit >= 0)
) WITH (fillfactor = 50);

-- The first index lists the newest jobs. The second index finds the running jobs, which a new job
-- must not overlap with, among any number of ended jobs.
CREATE INDEX IF NOT EXISTS idx_dlq_jobs_started_at ON dlq.dlq_jobs (started_at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_jobs_live ON dlq.dlq_jobs (started_at, id) WHERE ended_at IS NULL;

-- dlq_plans: jobs that are reviewed before their start. The job of a plan has the plan's id. The creation of
-- a plan deletes up to 100 plans that expired more than a day ago.
CREATE TABLE IF NOT EXISTS dlq.dlq_plans (
    id          UUID        PRIMARY KEY,
    spec        JSONB       NOT NULL, -- of the job, as in dlq_jobs, like the next two columns
    upper_bound BIGINT      NOT NULL,
    snapshot_at TIMESTAMPTZ NOT NULL,
    effect      JSONB       NOT NULL, -- the messages that would be sent or changed, counted
    summary     JSONB       NOT NULL, -- the other numbers that the plan shows, and the ids of its sample
    expires_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_dlq_plans_expires_at ON dlq.dlq_plans (expires_at);

-- dlq_job_lanes: the parallel scans of each bulk retry. A lane has dealt with every message
-- up to its cursor, except the messages of its page and of its queues. The cursor never goes
-- back.
--
-- A row is updated twice for each page. While a long transaction is open, such as a pg_dump,
-- PostgreSQL keeps every version of the row, and a lookup by lane would read them all. So each
-- claim counts its page, and a lookup starts at the highest count.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_lanes (
    job_id           UUID        NOT NULL REFERENCES dlq.dlq_jobs ON DELETE CASCADE,
    lane              INT         NOT NULL,               -- from 0
    first_bucket INT NOT NULL DEFAULT 0, last_bucket INT NOT NULL DEFAULT 1023, -- by the low 10 bits of key_hash
    cursor            BIGINT      NOT NULL DEFAULT 0,     -- the seq up to which the lane has scanned
    retried           BIGINT      NOT NULL DEFAULT 0,     -- delivered
    failed            BIGINT      NOT NULL DEFAULT 0,     -- PENDING again
    dead              BIGINT      NOT NULL DEFAULT 0,     -- not delivered, and not to be tried again
    skipped           BIGINT      NOT NULL DEFAULT 0,     -- claimed, and not sent since they were blocked
    epoch             INT         NOT NULL DEFAULT 0,     -- which attempt may claim and finalize
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    -- The messages that are claimed and not finalized. The array is written twice for each page, so its
    -- compression would cost more than it saves.
    page              UUID[]      NOT NULL DEFAULT '{}',
    scheduled_at      TIMESTAMPTZ NOT NULL DEFAULT '-infinity', -- of the activity that has the lane
    attempt           INT         NOT NULL DEFAULT 0,     -- of that activity; an earlier attempt may not open the lane
    waiting           BIGINT      NOT NULL DEFAULT 0,     -- how many of its messages wait in queues
    pages             BIGINT      NOT NULL DEFAULT 0,     -- that it has claimed

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
-- of a running job follows from the newest samples.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_samples (
    job_id  UUID NOT NULL REFERENCES dlq.dlq_jobs ON DELETE CASCADE,
    tick    BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL,
    retried BIGINT NOT NULL, failed BIGINT NOT NULL, dead BIGINT NOT NULL, changed BIGINT NOT NULL, skipped BIGINT NOT NULL,
    PRIMARY KEY (job_id, tick)
);

-- dlq_job_queues: targets and keys that messages of a bulk retry wait for.
--
-- A queue belongs to a closed target (key_hash is -1, lane is -1), or to a key whose first message
-- has to wait. A message is blocked as long as an earlier message of its key waits in any queue of the
-- job.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_queues (
    id        BIGINT       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id   UUID         NOT NULL REFERENCES dlq.dlq_jobs ON DELETE CASCADE,
    lane      INT          NOT NULL,               -- of the key, or -1
    topic     VARCHAR(255) NOT NULL,               -- that the messages go to
    partition INT          NOT NULL,               -- of the target; -1 is the topic as a whole
    key_hash  INT          NOT NULL,               -- of the key, or -1
    closed    BOOLEAN      NOT NULL,               -- the target takes nothing: single messages try it again
    tries     INT          NOT NULL,               -- how often in a row the target was tried in vain
    due_at    TIMESTAMPTZ  NOT NULL,               -- when the next try is
    reason    TEXT         NOT NULL,               -- the last answer
    category  VARCHAR(50)  NOT NULL,               -- of that error

    CONSTRAINT uq_dlq_job_queues UNIQUE (job_id, topic, partition, key_hash)
);

-- The queues of a lane that are due, and the targets that are closed.
CREATE INDEX IF NOT EXISTS idx_dlq_job_queues_due ON dlq.dlq_job_queues (job_id, lane, due_at);
CREATE INDEX IF NOT EXISTS idx_dlq_job_queues_closed ON dlq.dlq_job_queues (job_id) WHERE closed;

-- dlq_job_waiting: the messages in the queues. They are PENDING and uncounted.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_waiting (
    job_id    UUID   NOT NULL,
    queue_id   BIGINT NOT NULL,
    lane       INT    NOT NULL,
    seq        BIGINT NOT NULL, -- of the message, like the next two columns
    message_id UUID   NOT NULL,
    key_hash   INT    NOT NULL,

    PRIMARY KEY (job_id, queue_id, lane, seq, message_id) -- rows that were copied by hand may share a seq
);

-- Tells whether an earlier message of a key waits.
CREATE INDEX IF NOT EXISTS idx_dlq_job_waiting_key ON dlq.dlq_job_waiting (job_id, key_hash, seq);

-- dlq_job_blocked_keys: the keys of messages that a bulk retry has failed. The job skips the
-- later messages of these keys.
CREATE TABLE IF NOT EXISTS dlq.dlq_job_blocked_keys (
    job_id  UUID         NOT NULL,
    key_hash INT          NOT NULL,
    topic    VARCHAR(255) NOT NULL, -- the target of the message
    key      BYTEA        NOT NULL  -- may be too long for an index, so the index has the hash
);
CREATE INDEX IF NOT EXISTS idx_dlq_job_blocked_keys ON dlq.dlq_job_blocked_keys (job_id, key_hash);

-- dlq_retrying: the ids of all RETRYING messages. Some of the ids belong to messages whose retry has
-- ended, and an id may occur twice.
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

-- Nobody finalizes the messages of a page any more once the row of the lane was deleted, or once the
-- job has ended.
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

-- dlq_targets: where the messages of each dead-letter topic were delivered. A topic that was deleted
-- and created again has another topic id, and is another target. The watermarks of a target count
-- once ingest has passed the dead-letter topics into which its messages can come back.
CREATE TABLE IF NOT EXISTS dlq.dlq_targets (
    id           INT          GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic        TEXT         NOT NULL,               -- a topic, or http:NAME for an endpoint
    topic_id     UUID,                                -- Kafka's; null for endpoints, and when unknown
    changed      BOOLEAN      NOT NULL DEFAULT false, -- no topic has this id any more, so its offsets mean nothing
    dlq_topic    VARCHAR(255) NOT NULL DEFAULT '',    -- of the messages
    watermark_at TIMESTAMPTZ,                         -- when its offsets were fetched; null before

    CONSTRAINT uq_dlq_targets UNIQUE NULLS NOT DISTINCT (topic, topic_id, dlq_topic)
) WITH (fillfactor = 50);

-- dlq_watermarks: the committed offsets of consumer groups. A delivered message is verified when
-- its group has committed an offset beyond that message.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermarks (
    consumer_group   TEXT   NOT NULL,
    target_id        INT    NOT NULL, -- of dlq_targets
    partition        INT    NOT NULL,
    committed_offset BIGINT NOT NULL, -- of the next record to read

    PRIMARY KEY (consumer_group, target_id, partition)
) WITH (fillfactor = 50);

-- dlq_watermark_groups: the groups that were fetched.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermark_groups (
    consumer_group TEXT        PRIMARY KEY,
    error          TEXT        NOT NULL,              -- why Kafka refused its offsets, or ''
    since          TIMESTAMPTZ NOT NULL DEFAULT NOW() -- since when the group is fetched without a gap
);

-- dlq_watermark_lease: a single row, of the process that publishes watermarks.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermark_lease (
    only_row   BOOLEAN     PRIMARY KEY DEFAULT true CHECK (only_row),
    holder     UUID        NOT NULL,
    epoch      BIGINT      NOT NULL, -- grows with each change of the holder
    expires_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);
