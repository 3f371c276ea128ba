// This file sends the log lines of the cloud's code, which uses klog, where the provider's go.

package serve

import (
	"context"
	"flag"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// setKlog sends the lines of klog to the provider's log, with their levels. klog.Fatal and klog.Exit end the process
// with one line that says so.
func setKlog(verbosity int, exit func(code int)) error {
	var lastWords atomic.Value
	lastWords.Store("no reason is named")
	klog.SetLoggerWithOptions(logr.FromSlogHandler(slog.Default().Handler()), klog.ContextualLogger(true),
		klog.WriteKlogBuffer(func(line []byte) {
			level, source, text := readKlogLine(string(line))
			if level == levelFatal {
				lastWords.Store(source + ": " + text)
				return
			}
			slog.Log(context.Background(), level, text, "source", source)
		}))
	klog.OsExit = func(code int) {
		slog.Error("provider ended", "error", "the cloud's code ended the process: "+lastWords.Load().(string), "exit_code", code)
		exit(code)
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags.Set("v", strconv.Itoa(verbosity))
}

// levelFatal is that of lines after which klog ends the process.
const levelFatal = slog.LevelError + 4

// readKlogLine reads a line such as "W1126 19:00:00.000000       1 file.go:12] text".
func readKlogLine(line string) (level slog.Level, source, text string) {
	levels := map[byte]slog.Level{'W': slog.LevelWarn, 'E': slog.LevelError, 'F': levelFatal}
	head, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "] ")
	if !ok || head == "" {
		return slog.LevelInfo, "", line
	}
	return levels[head[0]], head[strings.LastIndex(head, " ")+1:], text
}
