-- dlq-db: groups of failures with the same cause

-- dlq_groups: the causes of failures. The columns from version to message are the fingerprint, the part
-- that failures of one cause have in common. The id is the hash of the fingerprint.
-- The columns owner, ticket and note are notes of operators.
CREATE TABLE IF NOT EXISTS dlq.dlq_groups (
    id               UUID         PRIMARY KEY,
    version          INT          NOT NULL,            -- of the rules that make fingerprints
    scope            TEXT         NOT NULL,            -- consumer group, or dead-letter topic if the consumer group is unknown
    rule             VARCHAR(50)  NOT NULL,            -- explicit, frame, frame_and_message, message or overflow
    class            TEXT         NOT NULL,            -- of the innermost cause
    frame            TEXT         NOT NULL,            -- where the error was thrown
    message          TEXT         NOT NULL,            -- error message without its variable parts
    dlq_topic        VARCHAR(255) NOT NULL,            -- of the first message
    first_seen       TIMESTAMPTZ  NOT NULL DEFAULT NOW(),

    owner            TEXT         NOT NULL DEFAULT '',
    ticket           TEXT         NOT NULL DEFAULT '', -- a link
    note             TEXT         NOT NULL DEFAULT '',
    state            VARCHAR(50)  NOT NULL DEFAULT 'open',
    state_at         TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    state_reason     TEXT         NOT NULL DEFAULT '', -- why a held or fixed group is open again
    held_until       TIMESTAMPTZ,                      -- a held group opens at this time
    held_until_count BIGINT,                           -- a held group opens when so many messages have arrived in all
    held_until_rate  BIGINT,                           -- a held group opens when so many messages arrive in an hour
    regressed_by     UUID,                             -- the message that failed after the fix

    CONSTRAINT chk_dlq_groups_state CHECK (state IN ('open', 'held', 'fixed'))
);

-- For the newest groups; for the groups of a topic, whose number is limited; and for the held groups, which the sweeper opens.
CREATE INDEX IF NOT EXISTS idx_dlq_groups_first_seen ON dlq.dlq_groups (first_seen, id);
CREATE INDEX IF NOT EXISTS idx_dlq_groups_dlq_topic ON dlq.dlq_groups (dlq_topic);
CREATE INDEX IF NOT EXISTS idx_dlq_groups_held ON dlq.dlq_groups (id) WHERE state = 'held';

-- dlq_group_fixes: the end offset of each partition of the original topics when a group was fixed.
-- A record before the end offset was written before the fix, so its failure does not open the group.
CREATE TABLE IF NOT EXISTS dlq.dlq_group_fixes (
    group_id   UUID         NOT NULL REFERENCES dlq.dlq_groups ON DELETE CASCADE,
    topic      VARCHAR(255) NOT NULL, -- original topic
    partition  INT          NOT NULL,
    end_offset BIGINT       NOT NULL,

    PRIMARY KEY (group_id, topic, partition)
);
