-- dlq-db: searches of texts and headers

-- dlq_group_signatures: which trigrams (sequences of three bytes) the texts of a group have. The texts are the
-- error messages, classes and consumer groups of all messages that the group ever had. Each trigram sets a bit.
-- A search checks up to eight bits of its text, and skips the groups that lack a bit. A group without a row may
-- have any text. There is no foreign key: messages keep the id of a group that somebody deletes.
CREATE TABLE IF NOT EXISTS dlq.dlq_group_signatures (
    group_id UUID        PRIMARY KEY,
    bits     BIT(8192)   NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE dlq.dlq_group_signatures ALTER COLUMN bits SET STORAGE PLAIN;

-- The ingest adds the texts of its messages to the signatures. A write of any other program deletes
-- the signature of the group.
CREATE OR REPLACE FUNCTION dlq.forget_inserted_signatures() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM dlq.dlq_group_signatures WHERE group_id IN (SELECT group_id FROM inserted);
    RETURN NULL;
END;
$$;
CREATE OR REPLACE FUNCTION dlq.forget_signature() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM dlq.dlq_group_signatures WHERE group_id = NEW.group_id;
    RETURN NULL;
END;
$$;
CREATE OR REPLACE FUNCTION dlq.forget_signature_of_body() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM dlq.dlq_group_signatures WHERE group_id IN (SELECT group_id FROM dlq.dlq_messages WHERE id = NEW.message_id);
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.forget_signatures_of_inserted_bodies() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM dlq.dlq_group_signatures
    WHERE group_id IN (SELECT m.group_id FROM dlq.dlq_messages m JOIN inserted i ON m.id = i.message_id);
    RETURN NULL;
END;
$$;

-- dlq.has_header: whether headers, in Kafka's encoding, include a header with this name and value. Lengths
-- are zigzag varints. The result is false if the headers are damaged before such a header.
CREATE OR REPLACE FUNCTION dlq.has_header(headers BYTEA, name BYTEA, value BYTEA) RETURNS BOOLEAN
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    size    INT := octet_length(headers);
    at      INT := 0;
    number  BIGINT;
    shift   INT;
    digit   INT;
    wanted  INT := 0; -- the number to be read: 0 is the count, 1 the length of a name, 2 of a value
    is_name BOOLEAN := false;
BEGIN
    IF position(name IN headers) = 0 OR position(value IN headers) = 0 THEN
        RETURN false;
    END IF;
    WHILE at < size LOOP
        number := 0;
        shift := 0;
        LOOP
            IF at >= size OR shift > 28 THEN
                RETURN false;
            END IF;
            digit := get_byte(headers, at);
            at := at + 1;
            number := number + ((digit & 127)::bigint << shift);
            shift := shift + 7;
            EXIT WHEN digit < 128;
        END LOOP;
        number := CASE WHEN number & 1 = 1 THEN -1 - (number >> 1) ELSE number >> 1 END;
        IF wanted > 0 AND number > size - at THEN
            RETURN false;
        END IF;
        IF wanted = 1 THEN
            is_name := substring(headers FROM at + 1 FOR greatest(number, 0)::int) = name;
        ELSIF wanted = 2 AND is_name AND number >= 0 AND substring(headers FROM at + 1 FOR number::int) = value THEN
            RETURN true;
        END IF;
        IF wanted > 0 THEN
            at := at + greatest(number, 0)::int;
        END IF;
        wanted := CASE WHEN wanted = 1 THEN 2 ELSE 1 END;
    END LOOP;
    RETURN false;
END;
$$;

-- A transaction that keeps the signatures complete sets dlq.signed, as the ingest does. All other inserts delete signatures.
CREATE OR REPLACE TRIGGER trg_dlq_messages_unsigned
    AFTER INSERT ON dlq.dlq_messages
    REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT
    WHEN (current_setting('dlq.signed', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION dlq.forget_inserted_signatures();
CREATE OR REPLACE TRIGGER trg_dlq_message_bodies_unsigned
    AFTER INSERT ON dlq.dlq_message_bodies
    REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT
    WHEN (current_setting('dlq.signed', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION dlq.forget_signatures_of_inserted_bodies();
CREATE OR REPLACE TRIGGER trg_dlq_messages_edited
    AFTER UPDATE OF error_message, error_class, group_id ON dlq.dlq_messages
    FOR EACH ROW
    EXECUTE FUNCTION dlq.forget_signature();
CREATE OR REPLACE TRIGGER trg_dlq_message_bodies_edited
    AFTER UPDATE OF message_id, cause_class, consumer_group ON dlq.dlq_message_bodies
    FOR EACH ROW
    EXECUTE FUNCTION dlq.forget_signature_of_body();
