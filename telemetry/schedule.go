package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

var (
	archiveStarted = prometheus.NewDesc("dlq_archive_last_start_timestamp_seconds",
		"When the schedule last started a run of the archive, or was created, in Unix time. Every replica has the same value.", nil, nil)
	archiveFailed = prometheus.NewDesc("dlq_archive_last_run_failed",
		"1 if the last run of the archive has failed, was terminated or timed out, else 0. Every replica has the same value.", nil, nil)
	archiveRunning = prometheus.NewDesc("dlq_archive_running",
		"1 while a run of the archive is active, else 0. Every replica has the same value.", nil, nil)
	archiveInterval = prometheus.NewDesc("dlq_archive_interval_seconds",
		"The longest interval between the next ten starts of the archive by its schedule. Every replica has the same value.", nil, nil)
)

// ArchiveRun is the newest run of the archive.
type ArchiveRun struct {
	Started         time.Time
	Running, Failed bool
	Interval        time.Duration // 0 while unknown
}

// NewArchiveCollector exports the newest run of the archive. read gets the run from Temporal. The caller must register the
// collector.
func NewArchiveCollector(read func(context.Context) (ArchiveRun, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the archive's schedule", slowInterval, read, logger, exportArchive, archiveStarted, archiveFailed, archiveRunning, archiveInterval)
}

func exportArchive(run ArchiveRun, _ time.Time, to gauges) {
	to.add(archiveStarted, float64(run.Started.Unix()))
	to.add(archiveFailed, flag(run.Failed))
	to.add(archiveRunning, flag(run.Running))
	if run.Interval > 0 {
		to.add(archiveInterval, run.Interval.Seconds())
	}
}
