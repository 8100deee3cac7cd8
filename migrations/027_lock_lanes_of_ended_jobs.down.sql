CREATE OR REPLACE FUNCTION dlq.abandon_pages() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE dlq.dlq_messages SET in_page = false
    WHERE id = ANY (ARRAY(SELECT unnest(page) FROM dlq.dlq_bulk_retry_lanes_now WHERE bulk_id = NEW.id)) AND status = 'RETRYING';
    RETURN NULL;
END;
$$;
