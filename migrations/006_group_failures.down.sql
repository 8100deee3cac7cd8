DROP TABLE IF EXISTS dlq.dlq_group_fixes, dlq.dlq_groups;
