DROP TABLE IF EXISTS dlq.dlq_message_bodies;
DROP TABLE IF EXISTS dlq.dlq_messages;
