package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// seriesSQL reads the arrivals of each topic in each minute or hour, including arrivals that are not in the sums
// yet. The topics with the most arrivals come first. The topics beyond the limit are added up.
const seriesSQL = `
WITH part AS (
	SELECT a.dlq_topic, a.original_topic, a.at, a.arrived
	FROM dlq.dlq_arrivals a
	WHERE a.group_id = @group AND a.step = @step AND a.at >= @from AND a.at < @to AND true /* filter */
	UNION ALL
	SELECT a.dlq_topic, a.original_topic, date_trunc(@step, a.arrived_at, 'UTC'), a.arrived
	FROM dlq.dlq_uncounted a
	WHERE a.arrived > 0 AND a.arrived_at >= @from AND a.arrived_at < @to
		AND (@group = '00000000-0000-0000-0000-000000000000' OR a.group_id = @group)
		AND (@topic = '' OR a.dlq_topic = @topic OR a.original_topic = @topic)
), named AS MATERIALIZED (
	SELECT CASE WHEN dlq_topic = '' THEN original_topic ELSE dlq_topic END COLLATE "C" AS topic, at, arrived
	FROM part
	WHERE @within = '' OR dlq_topic ~ @within
), ranked AS (
	SELECT topic, row_number() OVER (ORDER BY sum(arrived) DESC, topic) AS place
	FROM named
	GROUP BY topic
)
SELECT least(r.place, @limit + 1) AS place, min(r.topic) FILTER (WHERE r.place <= @limit), n.at, sum(n.arrived)::bigint
FROM named n
JOIN ranked r ON r.topic = n.topic
GROUP BY 1, n.at
ORDER BY 1, n.at`

// Conditions of seriesSQL. The indexes of topics leave out the rows of groups. A generic plan can use these indexes
// only if the statement leaves out the rows of groups too.
const (
	seriesTopic = `(a.dlq_topic = @topic OR a.original_topic = @topic)`
	seriesOfAll = `a.group_id = '00000000-0000-0000-0000-000000000000' AND `
)

// Series returns the arrivals of the range, the topic with the most arrivals first. Topics without arrivals are left out.
func (s *Store) Series(ctx context.Context, q dlq.SeriesQuery) (series []dlq.Series, err error) {
	type bucket struct {
		Place   int
		Topic   *string
		At      time.Time
		Arrived int64
	}
	found, err := queryAll(ctx, s, "read arrivals", pgx.RowToStructByPos[bucket], ofTopic(seriesSQL, &q), pgx.NamedArgs{"topic": q.Topic,
		"group": uuid(q.Group), "within": q.Within, "step": q.Step, "from": q.From, "to": q.To, "limit": dlq.MaxSeries}, byIndexSQL)
	for _, b := range found {
		if b.Place > len(series) {
			series = append(series, dlq.Series{Topic: b.Topic, Buckets: make([]int64, q.Buckets())})
		}
		last := &series[b.Place-1]
		last.Arrived += b.Arrived
		last.Buckets[b.At.Sub(q.From)/q.Step.Duration()] = b.Arrived
	}
	return series, err
}

func ofTopic(sql string, q *dlq.SeriesQuery) string {
	switch {
	case q.Topic == "":
		return sql
	case q.Group.IsZero():
		return strings.Replace(sql, filterMark, seriesOfAll+seriesTopic, 1)
	default:
		return strings.Replace(sql, filterMark, seriesTopic, 1)
	}
}
