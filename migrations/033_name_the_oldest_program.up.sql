-- dlq-db: which programs can work with this schema, so that an upgrade can be rolled back

-- dlq_schema: one row. Programs are named by the newest migration that they know. A migration
-- that takes away what earlier programs need raises oldest_program to the first that can do
-- without it; programs before that refuse the schema.
CREATE TABLE IF NOT EXISTS dlq.dlq_schema (
    only_row       BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
    oldest_program INT NOT NULL
);

INSERT INTO dlq.dlq_schema (oldest_program) VALUES (33) ON CONFLICT DO NOTHING;
