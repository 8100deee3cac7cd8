-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_message_bodies, dlq.dlq_groups IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

DROP INDEX IF EXISTS dlq.idx_dlq_message_bodies_origin;
DROP INDEX IF EXISTS dlq.idx_dlq_message_bodies_correlation;
DROP INDEX IF EXISTS dlq.idx_dlq_message_bodies_trace;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_suspicious;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic_suspicious;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_ungrouped;
DROP TRIGGER IF EXISTS trg_dlq_message_bodies_edited ON dlq.dlq_message_bodies;
DROP TRIGGER IF EXISTS trg_dlq_message_bodies_unsigned ON dlq.dlq_message_bodies;
DROP TRIGGER IF EXISTS trg_dlq_messages_edited ON dlq.dlq_messages;
DROP TRIGGER IF EXISTS trg_dlq_messages_unsigned ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.has_header(BYTEA, BYTEA, BYTEA);
DROP FUNCTION IF EXISTS dlq.forget_signatures_of_inserted_bodies();
DROP FUNCTION IF EXISTS dlq.forget_signature_of_body();
DROP FUNCTION IF EXISTS dlq.forget_signature();
DROP FUNCTION IF EXISTS dlq.forget_inserted_signatures();
DROP TABLE IF EXISTS dlq.dlq_group_signatures;
