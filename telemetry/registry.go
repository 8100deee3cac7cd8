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

// NewRegistry returns a registry with the metrics of the Go runtime and of the process. The labels of dlq_build_info name the
// program and its version. Prometheus's global registry is not used, since any library can add metrics to it.
func NewRegistry(name, version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	addInfo(registry, "dlq_build_info", "The running program and its version; always 1.", prometheus.Labels{
		"app": name, "version": version, "go_version": runtime.Version(), "revision": revision(),
	})
	return registry
}

// NameConsole adds dlq_console_info. Dashboards read the address of the console from it.
func NameConsole(registry *prometheus.Registry, address string) {
	addInfo(registry, "dlq_console_info", "The address of the console in the label url, if `server.public_url` is set; always 1.",
		prometheus.Labels{"url": address})
}

// addInfo adds a metric with information in its labels. Its value is 1.
func addInfo(registry *prometheus.Registry, name, help string, labels prometheus.Labels) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	info.Set(1)
	registry.MustRegister(info)
}

// revision is the commit from which the program was built. It is empty if the commit is unknown.
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

// Handler serves the metrics of the registry. If a collector fails, the error is logged, and the metrics of the other
// collectors are still served.
func Handler(registry *prometheus.Registry, logger *zap.Logger) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:          zap.NewStdLog(logger.Named("metrics")),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
}
