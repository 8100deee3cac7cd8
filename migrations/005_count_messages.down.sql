DROP FUNCTION IF EXISTS dlq.recount_messages(), dlq.count_no_messages(), dlq.keep_arrivals(), dlq.count_messages() CASCADE; -- and the triggers
DROP VIEW IF EXISTS dlq.dlq_topic_counts, dlq.dlq_uncounted;
DROP TABLE IF EXISTS dlq.dlq_count_batches, dlq.dlq_arrivals, dlq.dlq_group_arrivals, dlq.dlq_group_count_sums, dlq.dlq_topic_count_sums;
