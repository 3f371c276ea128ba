// The API of the fake cloud: switches that refuse its calls, and a journal of those that it served.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// api stands for the cloud's: what is between a provider and its load balancers. Files of its folder, which a
// shell can write, switch it:
//
//	refuses     off, limited or locked: every call fails; hangs: it waits until the file says something else
//	blackholes  a CIDR a line: the route to it leads nowhere from now on; taken away once it is read
//	journal     written here: a line for each call, "read ..." or "change ..."
//	state       written here: what there is after the last call, as JSON
type api struct{ folder string }

// apiError has the shape of an error of a client of a cloud, which the adapter knows.
type apiError struct {
	// Code of the cloud; empty: none.
	Code string
	// Response that it was made from; nil: none.
	Response *http.Response
	text     string
}

func (e *apiError) Error() string { return e.text }

func (a api) read(call string) error   { return a.call("read", call) }
func (a api) change(call string) error { return a.call("change", call) }

// call writes the journal, where the cloud does not refuse.
func (a api) call(kind, call string) error {
	if a.folder == "" {
		return nil
	}
	refused := func(status int) error {
		header := http.Header{"Retry-After": {"1"}}
		return &apiError{
			Response: &http.Response{StatusCode: status, Header: header},
			text:     fmt.Sprintf("%s: %d %s", call, status, http.StatusText(status)),
		}
	}
	for a.file("refuses") == "hangs" {
		time.Sleep(10 * time.Millisecond)
	}
	switch a.file("refuses") {
	case "off":
		return refused(http.StatusServiceUnavailable)
	case "limited":
		return refused(http.StatusTooManyRequests)
	case "locked":
		return refused(http.StatusUnauthorized)
	}
	journal, err := os.OpenFile(filepath.Join(a.folder, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(journal, kind, call)
	return errors.Join(err, journal.Close())
}

func (a api) noteState(state map[string][]string) {
	if a.folder == "" {
		return
	}
	text, _ := json.Marshal(state)
	_ = os.WriteFile(filepath.Join(a.folder, "state"), text, 0o644)
}

// takeBlackholes are the CIDRs that were named since it was called last.
func (a api) takeBlackholes() []string {
	named := strings.Fields(a.file("blackholes"))
	if len(named) > 0 {
		_ = os.Remove(filepath.Join(a.folder, "blackholes"))
	}
	return named
}

// file is its text; empty where there is none.
func (a api) file(name string) string {
	if a.folder == "" {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(a.folder, name))
	return strings.TrimSpace(string(text))
}
