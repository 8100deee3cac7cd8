-- dlq-db: a bulk retry is there before it is counted
--
-- frozen_at  when its scope was fixed: what changed later is not taken; null for
--            jobs of before, which take what they find
-- counted    whether matched and mixed are known; programs of before count first

ALTER TABLE dlq.dlq_bulk_retries
    ADD COLUMN IF NOT EXISTS frozen_at TIMESTAMPTZ,
    ADD COLUMN IF NOT EXISTS counted   BOOLEAN NOT NULL DEFAULT true;
