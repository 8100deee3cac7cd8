DROP TRIGGER IF EXISTS trg_dlq_message_bodies_edited ON dlq.dlq_message_bodies;
DROP TRIGGER IF EXISTS trg_dlq_message_bodies_unsigned ON dlq.dlq_message_bodies;
DROP TRIGGER IF EXISTS trg_dlq_messages_edited ON dlq.dlq_messages;
DROP TRIGGER IF EXISTS trg_dlq_messages_unsigned ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.has_header(BYTEA, BYTEA, BYTEA), dlq.forget_signatures_of_inserted_bodies(), dlq.forget_signature_of_body(),
    dlq.forget_signature(), dlq.forget_inserted_signatures();
DROP TABLE IF EXISTS dlq.dlq_group_signatures;
