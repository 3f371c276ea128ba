// This file counts the writes of a step by the kind of object.

package migration

import (
	"strings"

	"outrigger.dev/bench/audit"
)

// Writes of one program during a step, by the objects that they are about.
type Writes struct {
	Nodes    int `json:"nodes"`
	Services int `json:"services"`
	Events   int `json:"events"`
	// Others are the writes and events about objects that came or went during the step.
	Others int `json:"others"`
	Leases int `json:"leases"`
}

// Count counts the writes. Objects that are not in the snapshot count as others.
func Count(requests []audit.Request, standing Objects) Writes {
	var count Writes
	for _, request := range requests {
		kind, _, _ := strings.Cut(request.Resource, "/")
		name := request.Name
		if kind == "events" {
			name, _, _ = strings.Cut(name, ".")
		}
		switch {
		case kind == "leases" && request.Verb != "get":
			count.Leases++
		case !request.Changes():
		case !standing.Has(name):
			count.Others++
		case kind == "nodes":
			count.Nodes++
		case kind == "services":
			count.Services++
		case kind == "events":
			count.Events++
		default:
			count.Others++
		}
	}
	return count
}
