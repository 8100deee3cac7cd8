-- dlq-db: edited copies of messages

-- Which message an edited copy has replaced. The original is RESOLVED with the resolution
-- replaced; the copy's previous_id names it too. The rows stay when a message is deleted or
-- archived: operators write them one by one.
CREATE TABLE IF NOT EXISTS dlq.dlq_edits (
    original_id UUID        PRIMARY KEY, -- a message has one copy
    copy_id     UUID        NOT NULL,
    edited_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),

    CONSTRAINT uq_dlq_edits_copy UNIQUE (copy_id)
);
