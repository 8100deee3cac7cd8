-- dlq-db: a page that is claimed while its job is ended by hand is not lost to lists

-- As before, and waits for claims that are about to commit. Their page was missed. A later
-- claim finds that the job has ended.
CREATE OR REPLACE FUNCTION dlq.abandon_pages() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = NEW.id FOR UPDATE;
    UPDATE dlq.dlq_messages SET in_page = false
    WHERE id = ANY (ARRAY(SELECT unnest(page) FROM dlq.dlq_bulk_retry_lanes_now WHERE bulk_id = NEW.id)) AND status = 'RETRYING';
    RETURN NULL;
END;
$$;
