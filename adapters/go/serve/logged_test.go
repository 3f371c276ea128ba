// This file has the log lines of a test.

package serve

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

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
