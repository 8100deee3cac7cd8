package store

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

func explain(t *testing.T, pool *pgxpool.Pool, label, sql string, args pgx.NamedArgs, verbose bool) {
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		tx, _ := pool.Begin(t.Context())
		tx.Exec(t.Context(), "SET LOCAL plan_cache_mode="+mode)
		// generic explain through PREPARE is what EXPLAIN with params via extended protocol does
		best := time.Hour
		var out []string
		for range 3 {
			rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) "+sql, args)
			if err != nil { t.Fatal(err) }
			out, err = pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil { t.Fatal(label, err) }
			for _, l := range out { if strings.HasPrefix(l, "Execution Time") { var f float64; fmt.Sscanf(l, "Execution Time: %f", &f); if d := time.Duration(f*1e6); d < best { best = d } } }
		}
		tx.Rollback(t.Context())
		all := strings.Join(out, "\n")
		flags := ""
		for _, bad := range []string{"Seq Scan on dlq_messages", "Bitmap", "Sort Method", "Incremental"} { if n := strings.Count(all, bad); n > 0 { flags += fmt.Sprintf(" %s×%d", bad, n) } }
		fmt.Printf("%-50s %-20s %8.2f ms %s %s\n", label, mode, float64(best)/1e6, flags, func() string { for _, l := range out { if strings.Contains(l, "Buffers") { return strings.TrimSpace(l) } }; return "" }())
		if verbose { fmt.Println(all) }
	}
}

func TestZZExplain(t *testing.T) {
	if os.Getenv("ZZ") == "" { t.Skip() }
	pool := dbtest.New(t)
	p := NewPostgres(pool, dlqtest.Topics(t))
	ctx := context.Background()
	t0 := time.Now()
	for i := range 400 {
		as := dlqtest.Arrivals(500)
		for j := range as {
			topic := []string{"orders", "orders", "orders", "users"}[j%4]
			dlqtest.Topic(topic)(&as[j])
			dlqtest.Value(`{"pad":"` + strings.Repeat("x", 900) + `"}`)(&as[j])
			as[j].Record.Key = fmt.Appendf(nil, "k%d", (i*500+j)%5000)
		}
		if _, err := p.StoreArrivals(ctx, as); err != nil { t.Fatal(err) }
	}
	fmt.Printf("ingest 200k: %v = %.0f/s\n", time.Since(t0), 200000/time.Since(t0).Seconds())
	pool.Exec(ctx, `UPDATE dlq.dlq_messages SET status='RESOLVED' WHERE seq % 10 = 3`)
	pool.Exec(ctx, `UPDATE dlq.dlq_messages SET status='DEAD' WHERE seq % 50 = 4`)
	for _, analyzed := range []bool{false, true} {
		if analyzed { pool.Exec(ctx, "VACUUM ANALYZE") }
		fmt.Println("=== analyzed", analyzed)
		run := func(label string, q dlq.ListQuery, verbose bool) {
			args := pgx.NamedArgs{"topic": q.Topic}
			cond := filterConditions(q.Filter, args)
			explain(t, pool, label, listSQL(q, cond, q.PageSize, args), args, verbose)
			explain(t, pool, label+" (count)", countSQL(q.Filter, cond), args, verbose)
		}
		deep := int64(100000); deeper := int64(500)
		v := os.Getenv("ZZ") == "v"
		run("list first", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 50}, v && analyzed)
		run("list by origin", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 50}, false)
		run("list cursor 100k", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 50, After: &deep}, false)
		run("list cursor 500", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 50, After: &deeper}, false)
		run("list PENDING", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Statuses: []dlq.Status{"PENDING"}}, PageSize: 50, After: &deep}, false)
		run("list DEAD oldest", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Statuses: []dlq.Status{"DEAD"}}, PageSize: 50, OldestFirst: true}, false)
		run("list RETRYING (none)", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Statuses: []dlq.Status{"RETRYING"}}, PageSize: 50}, false)
		run("list page 2000 (offset 100k)", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, Page: 2000, PageSize: 50}, false)
		run("list key", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte("k4")}, PageSize: 50}, v && analyzed)
		run("list unknown key", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte("zz")}, PageSize: 50}, false)
		run("list error common", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", ErrorContains: "OOM"}, PageSize: 50}, false)
		run("list error rare", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", ErrorContains: "zzz"}, PageSize: 50}, false)
		run("list created", dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", CreatedFrom: time.Now().Add(-time.Hour)}, PageSize: 50}, false)
		explain(t, pool, "topics", topicsSQL, pgx.NamedArgs{}, v && analyzed)
		b, err := p.StartBulk(ctx, dlqtest.Bulk("orders.dlq", 4))
		if err != nil { t.Fatal(err) }
		for _, cursor := range []int64{0, 100000, 190000} {
			pool.Exec(ctx, "UPDATE dlq.dlq_bulk_retry_lanes SET cursor=$1", cursor)
			lane := dlqtest.Lane(b, 1)
			explain(t, pool, fmt.Sprint("claim page at ", cursor), claimPageSQL, p.laneArgs(lane), v && analyzed && cursor == 100000)
		}
		t1 := time.Now()
		pool.Exec(ctx, "UPDATE dlq.dlq_bulk_retry_lanes SET cursor=0")
		n := 0
		lane := dlqtest.Lane(b, 1)
		for range 100 {
			page, err := p.ClaimPage(ctx, lane)
			if err != nil { t.Fatal(err) }
			if _, err := p.FinalizePage(ctx, lane, dlqtest.Outcomes(page, dlq.ResultReturned)); err != nil { t.Fatal(err) }
			n += len(page)
		}
		fmt.Printf("claim+finalize one lane: %d msgs %.0f/s\n", n, float64(n)/time.Since(t1).Seconds())
		t1 = time.Now(); b, _ = p.StartBulk(ctx, dlqtest.Bulk("orders.dlq", 4)); fmt.Println("StartBulk", time.Since(t1), b.Matched)
		t1 = time.Now(); p.EndBulk(ctx, b.ID, dlq.BulkCompleted, ""); fmt.Println("EndBulk", time.Since(t1))
	}
	t1 := time.Now(); n, err := p.ArchiveBatch(ctx, 0, 1000); fmt.Println("archive 1000", n, time.Since(t1), err)
}
