package telemetry

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// NewRegistry returns a registry of its own, so that nothing else in the process
// can add to it, with the Go runtime's metrics, the process's, and
// dlq_build_info, whose value is always 1 and whose labels say what is running.
func NewRegistry(name, version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dlq_build_info",
		Help: "What is running; always 1.",
		ConstLabels: prometheus.Labels{
			"app": name, "version": version, "go_version": runtime.Version(), "revision": revision(),
		},
	})
	build.Set(1)
	registry.MustRegister(
		build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// revision is the commit that the program was built from, or empty.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}

// Handler serves what is on the registry. When a collector fails, the others are
// still served and the failure is logged: a metric that is missing is better
// than all of them.
func Handler(registry *prometheus.Registry, logger *zap.Logger) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:          zap.NewStdLog(logger.Named("metrics")),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
}
