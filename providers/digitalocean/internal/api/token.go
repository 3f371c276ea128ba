// This file reads the API token.

package api

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// A Token gives the API token of the next request.
type Token func() (string, error)

// FixedToken is one that cannot change while the process runs.
func FixedToken(token string) Token {
	return func() (string, error) { return token, nil }
}

// FileToken reads the token from a file before each request: a Secret's volume shows a new one without
// any notice, and a read costs nothing beside a request. A file that cannot be read, or is empty, leaves
// the last token in use; without one it is an error.
func FileToken(path string) Token {
	var (
		mu      sync.Mutex
		last    string
		refused bool
	)
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		token, err := readToken(path)
		if err != nil {
			if last == "" {
				return "", err
			}
			if !refused {
				slog.Warn("the token cannot be read again; the last one stays in use", "file", path, "error", err.Error())
			}
			refused = true
			return last, nil
		}
		if last != "" && token != last {
			slog.Info("the token changed; the new one is in use", "file", path)
		}
		last, refused = token, false
		return token, nil
	}
}

func readToken(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the token file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty: write a DigitalOcean API token into it", path)
	}
	if strings.ContainsFunc(token, func(char rune) bool { return char <= ' ' || char > '~' }) {
		return "", errors.New("the token file " + path + " holds more than one token: write nothing else into it")
	}
	return token, nil
}
