// This test reads an audit log while it grows.

package audit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProgramsAndWritesAreToldApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if _, err := log.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	line := func(stage, verb, agent, object string) string {
		return `{"stage":"` + stage + `","verb":"` + verb + `","userAgent":"` + agent +
			`","stageTimestamp":"2026-01-02T03:04:05.678901Z","objectRef":` + object + "}\n"
	}
	nodes := `{"resource":"nodes","subresource":"status"}`
	write(line("ResponseComplete", "patch", "upstream/v1 (linux)", nodes))
	opened, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := opened.Mark()
	if err != nil || mark != 1 {
		t.Fatal(mark, err)
	}
	write(line("ResponseStarted", "watch", "upstream/v1", nodes) + line("ResponseComplete", "watch", "upstream/v1", nodes))
	write(line("ResponseComplete", "patch", "upstream-of-another/v1", nodes))
	write(line("ResponseComplete", "update", "upstream/v1", `{"resource":"leases"}`))
	last := line("ResponseComplete", "patch", "upstream/v1", nodes)
	write(last[:30]) // the rest of the line is not written yet
	if requests, err := opened.Since(mark, "upstream"); err != nil || len(requests) != 2 {
		t.Fatal(requests, err)
	}
	write(last[30:])
	requests, err := opened.Since(mark, "upstream")
	if err != nil || len(requests) != 3 {
		t.Fatal(requests, err)
	}
	if requests[0].Changes() || requests[1].Changes() || !requests[2].Changes() || requests[2].Resource != "nodes/status" {
		t.Error(requests)
	}
}
