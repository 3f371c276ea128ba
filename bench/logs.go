package main

import "os"

// withLogs measures with a folder for the logs of the programs. The folder stays if it fails, or if keep says
// so afterwards.
func withLogs(keep func() bool, measure func(dir string) error) error {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	if err := measure(dir); err != nil || keep() {
		note("logs are in %s", dir)
		return err
	}
	return os.RemoveAll(dir)
}
