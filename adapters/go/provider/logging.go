// This file sets up the log of a provider's process.

package provider

import (
	"log/slog"
	"os"
	"strings"
	"time"
)

// LogLevelEnv is the environment variable of the log level: debug, info, warn or error; default info.
const LogLevelEnv = "LOG_LEVEL"

// InitLogging sets up slog for the whole process: on stderr, plain text on a terminal, one JSON object
// a line elsewhere, with the keys timestamp, level and message as the controller has them. Main calls it.
func InitLogging() {
	level := slog.LevelInfo
	text, isSet := os.LookupEnv(LogLevelEnv)
	wrong := isSet && level.UnmarshalText([]byte(strings.TrimSpace(text))) != nil
	options := &slog.HandlerOptions{Level: level}
	if isTerminal(os.Stderr) {
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, options)))
	} else {
		options.ReplaceAttr = controllerKeys
		slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, options)))
	}
	if wrong {
		slog.Warn("the log level is not known; info is used", "variable", LogLevelEnv, "value", text)
	}
}

func logger() *slog.Logger { return slog.Default() }

func controllerKeys(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attr
	}
	switch attr.Key {
	case slog.TimeKey:
		return slog.String("timestamp", attr.Value.Time().UTC().Format(time.RFC3339Nano))
	case slog.MessageKey:
		attr.Key = "message"
	}
	return attr
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
