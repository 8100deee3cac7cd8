package postgres

import (
	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// noteTargetsSQL gives each target an id before messages refer to the target. Nothing is written when all targets
// have an id. The statement runs each time, so that targets which a restore of the database has lost are added again.
const noteTargetsSQL = `
INSERT INTO dlq.dlq_targets (topic, topic_id, dlq_topic)
SELECT DISTINCT w.topic, w.topic_id, m.dlq_topic
FROM unnest(@ids::uuid[], @target_topics::text[], @target_topic_ids::uuid[]) AS w (message_id, topic, topic_id)
CROSS JOIN LATERAL (SELECT dlq_topic FROM dlq.dlq_messages WHERE id = w.message_id LIMIT 1) AS m
WHERE w.topic IS NOT NULL AND NOT EXISTS (SELECT FROM dlq.dlq_targets t
	WHERE t.topic = w.topic AND t.topic_id IS NOT DISTINCT FROM w.topic_id AND t.dlq_topic = m.dlq_topic)
ORDER BY w.topic, w.topic_id, m.dlq_topic
ON CONFLICT DO NOTHING`

// targetArgs are the parameters of noteTargetsSQL, and of a statement with a single target.
func targetArgs(message dlq.ID, a *dlq.Acknowledgement) pgx.NamedArgs {
	topic, id := a.Target()
	topicID := (*[16]byte)(id)
	return pgx.NamedArgs{"target_topic": topic, "target_topic_id": topicID,
		"ids": uuids([]dlq.ID{message}), "target_topics": []*string{topic}, "target_topic_ids": []*[16]byte{topicID}}
}
