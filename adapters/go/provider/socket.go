// This file reads the endpoint, makes the Unix socket that it names, replaces a stale one and refuses a live one.

package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// socketMode: controller and provider share the group (fsGroup), not the user.
	socketMode    = 0o660
	directoryMode = 0o770

	// connectTimeout of the check for a live provider.
	connectTimeout = 2 * time.Second
)

// socket is a Unix socket that is listened on.
type socket struct {
	net.Listener
	path string
	file fs.FileInfo
}

// listen makes the socket, with mode 0660. A stale one is replaced, a live one refused.
func listen(endpoint Endpoint) (*socket, error) {
	if err := makeDirectory(endpoint.directory()); err != nil {
		return nil, err
	}
	// Two providers that start together would each find no listener, and the later rename would win.
	unlock, err := lockDirectory(endpoint.directory())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := refuseLive(endpoint.path); err != nil {
		return nil, err
	}
	// The directory is locked, so this one is what a crash left.
	private := filepath.Join(endpoint.directory(), ".new")
	if err := os.RemoveAll(private); err != nil {
		return nil, fmt.Errorf("cannot remove what a crash left: %w", err)
	}
	s, err := makeSocket(private, endpoint.path)
	_ = os.RemoveAll(private)
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket %s: %w", endpoint.path, err)
	}
	return s, nil
}

// makeSocket makes the socket in a private directory and moves it to its path once it has its mode: at no moment can a process
// without the right connect.
func makeSocket(private, path string) (*socket, error) {
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, err
	}
	temporary := filepath.Join(private, "s") // paths of sockets are short
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // the path may be another's then
	err = os.Chmod(temporary, socketMode)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return &socket{Listener: listener, path: path, file: info}, nil
}

// remove removes the file, unless another process has put its own there.
func (s *socket) remove() {
	info, err := os.Lstat(s.path)
	if err != nil || !os.SameFile(info, s.file) {
		return
	}
	if err := os.Remove(s.path); err != nil {
		logger().Warn("cannot remove the socket", "path", s.path, "error", err.Error())
	}
}

// makeDirectory makes the directory, and what is missing above it. A directory that exists keeps its mode: an
// emptyDir belongs to root.
func makeDirectory(directory string) error {
	if _, err := os.Stat(directory); err == nil {
		return nil
	}
	if err := os.MkdirAll(directory, directoryMode); err != nil {
		return fmt.Errorf("cannot make the directory of the socket: %w", err)
	}
	return os.Chmod(directory, directoryMode) // the umask has removed bits
}

// lockDirectory keeps other providers from starting in the same directory meanwhile.
func lockDirectory(directory string) (unlock func(), err error) {
	file, err := os.Open(directory)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of the socket: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cannot lock the directory %s: %w", directory, err)
	}
	return func() { _ = file.Close() }, nil
}

// refuseLive asks a socket that is there: renaming over a live one succeeds and cuts its owner off.
func refuseLive(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot look for a socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another endpoint", path)
	}
	connection, err := net.DialTimeout("unix", path, connectTimeout)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		logger().Info("taking over a stale socket", "path", path)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		_ = connection.Close()
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded): // its queue is full
	default:
		return fmt.Errorf("cannot find out whether a provider serves: %w", err)
	}
	return fmt.Errorf("another process serves %s; stop it or choose another endpoint", path)
}

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
