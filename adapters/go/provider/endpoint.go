// This file reads the endpoint, which names the socket of a provider.

package provider

import (
	"fmt"
	"path/filepath"
	"strings"
)

// EndpointEnv is the environment variable that names the endpoint, on both sides.
const EndpointEnv = "CLOUDPROVIDER_ENDPOINT"

// DefaultEndpoint is where the socket is unless EndpointEnv or a flag says otherwise.
const DefaultEndpoint = "unix:///run/outrigger/provider.sock"

// maxPathBytes is a little less than the system's limit, which is 107 on Linux and 103 elsewhere.
const maxPathBytes = 100

// Endpoint is the Unix socket of a provider.
type Endpoint struct{ path string }

// ParseEndpoint reads unix:///absolute/path or unix:/absolute/path; the path has at most 100 bytes.
func ParseEndpoint(text string) (Endpoint, error) {
	path, isUnix := strings.CutPrefix(text, "unix://")
	if !isUnix {
		path, isUnix = strings.CutPrefix(text, "unix:")
	}
	problem := ""
	switch {
	case !isUnix:
		problem = "is no Unix socket; write unix:///absolute/path"
	case !filepath.IsAbs(path):
		problem = "has no absolute path; write unix:///absolute/path"
	case strings.HasSuffix(path, "/"):
		problem = "names a directory; write unix:///absolute/path/of.sock"
	case len(path) > maxPathBytes:
		problem = fmt.Sprintf("has a path of %d bytes; a Unix socket's may have %d", len(path), maxPathBytes)
	default:
		return Endpoint{path}, nil
	}
	return Endpoint{}, fmt.Errorf("endpoint %q %s", text, problem)
}

// Path returns the path of the socket.
func (e Endpoint) Path() string { return e.path }

// String returns the endpoint as unix:///absolute/path, however it was written.
func (e Endpoint) String() string { return "unix://" + e.path }

func (e Endpoint) directory() string { return filepath.Dir(e.path) }
