// These tests hold that the lines of the cloud's code keep their levels, and that the log has its end of the process.

package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

var lineNumber = regexp.MustCompile(`:\d+`)

// fatalCloud ends the process where it cannot reach its API, as clouds do.
type fatalCloud struct{ cloud }

func (*fatalCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	klog.Warning("the endpoint is slow")
	klog.ErrorS(errors.New("no route"), "the endpoint is away", "tries", 3)
	klog.Info("about to end")
	klog.Fatalf("cannot reach the endpoint: %d tries", 3)
	return nil, false
}

func TestFinding11FatalEndsTheProcessWithOneLineThatSaysSo(t *testing.T) {
	lines := logged(t)
	exit := klog.OsExit
	t.Cleanup(func() { klog.ClearLogger(); klog.OsExit = exit })
	exited := make(chan int, 1)
	err := setKlog(0, func(code int) {
		exited <- code
		runtime.Goexit() // as the end of the process, for the cloud's code
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = New(t.Context(), Options{}, func() (cloudprovider.Interface, error) { return &fatalCloud{}, nil })
	}()
	if code := <-exited; code != 255 {
		t.Error(code)
	}
	var got []string
	for line := range strings.Lines(lines()) {
		var fields struct{ Level, Msg, Error, Source string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		// Controllers of the clouds of other tests may still write lines.
		if strings.HasPrefix(fields.Source, "klog_test.go:") || strings.HasPrefix(fields.Msg, "the endpoint") || fields.Msg == "provider ended" {
			got = append(got, fields.Level+" "+fields.Msg+lineNumber.ReplaceAllString(" "+fields.Error, ""))
		}
	}
	want := []string{
		"WARN the endpoint is slow ", "ERROR the endpoint is away ", "INFO about to end ",
		"ERROR provider ended the cloud's code ended the process: klog_test.go: cannot reach the endpoint: 3 tries",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}

// lockedBuffer is written by goroutines that a test does not wait for.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// logged has the log lines of the process from now on, as JSON.
func logged(t *testing.T) (lines func() string) {
	t.Helper()
	before, buffer := slog.Default(), &lockedBuffer{}
	slog.SetDefault(slog.New(slog.NewJSONHandler(buffer, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return buffer.String
}
