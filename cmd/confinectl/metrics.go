package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/confinectl/confinectl/loader"
)

// writeMetrics keeps --metrics FILE up to date. A reader sees the old file or
// the new one: it is written beside FILE and renamed, under a name that the node
// exporter's textfile collector passes over.
func (w *watcher) writeMetrics(store *loader.Store) error {
	if w.metrics == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(w.metrics), "."+filepath.Base(w.metrics)+".*")
	if err == nil {
		_, err = f.WriteString(metricsText(store))
		if e := f.Chmod(0o644); err == nil {
			err = e
		}
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(f.Name(), w.metrics)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	if err != nil {
		return usagef("--metrics FILE needs a directory that confinectl may write", "metrics cannot be written to %s: %s", w.metrics, errText(err))
	}
	return nil
}

// metricsText is the Prometheus text exposition format, version 0.0.4.
func metricsText(store *loader.Store) string {
	var b strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP confinectl_%s %s\n# TYPE confinectl_%s %s\n", name, help, name, kind)
	}
	metric("profile_valid", "gauge", "Whether what lies on disk is the value that is used.")
	broken, statuses := 0, store.Statuses()
	for _, st := range statuses {
		valid := 1
		if st.Err != nil {
			valid = 0
			broken++
		}
		if st.Name != "" {
			fmt.Fprintf(&b, "confinectl_profile_valid{profile=%q} %d\n", st.Name, valid)
		}
	}
	metric("profile_broken_since_seconds", "gauge", "Since when it has not been, in seconds since 1970.")
	for _, st := range statuses {
		if st.Err != nil && st.Name != "" {
			fmt.Fprintf(&b, "confinectl_profile_broken_since_seconds{profile=%q} %s\n", st.Name, seconds(st.ErrSince))
		}
	}
	h := store.Health()
	number := func(name, kind, help string, value any) {
		metric(name, kind, help)
		fmt.Fprintf(&b, "confinectl_%s %v\n", name, value)
	}
	number("profiles_broken", "gauge", "Profiles that are refused, and layers that cannot be listed.", broken)
	number("last_reload_success_timestamp_seconds", "gauge", "When a reload last left no profile broken; 0: never.", seconds(h.Complete))
	number("reloads_total", "counter", "Reloads that took a new value, the first included.", h.Reloads)
	number("reload_failures_total", "counter", "Reloads that found a profile newly broken.", h.Failures)
	polling := 0
	if h.Polling != nil {
		polling = 1
	}
	number("watch_polling", "gauge", "Whether changes are found by polling, because notification is not complete.", polling)
	return b.String()
}

func seconds(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000)
}
