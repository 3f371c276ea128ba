// This file counts the writes of a step by the kind of object, and judges the changes of load balancers during it.

package migration

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/bench/audit"
	"outrigger.dev/bench/cloud"
)

// Touched is the number of changes in the cloud by their action.
type Touched map[cloud.Action]int

// String lists the actions that happened.
func (t Touched) String() string {
	var parts []string
	for _, action := range []cloud.Action{cloud.Created, cloud.Deleted, cloud.Retargeted, cloud.Respecified} {
		if t[action] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t[action], action))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// Expected is what was asked for during a step: nothing else may happen in the cloud.
type Expected struct {
	// Created and Deleted are Services, as namespace/name; Joined and Left are Nodes that came and went since the start.
	Created, Deleted, Joined, Left []string
	// TakenBack are Services that were edited, and then once more to be as before.
	TakenBack []string
}

// Judge counts the changes of a step, and names each that was not asked for.
func (e Expected) Judge(changes []cloud.Change) (Touched, []string) {
	count := Touched{}
	var wrong []string
	for _, change := range changes {
		count[change.Action]++
		fits := false
		switch change.Action {
		case cloud.Created:
			fits = slices.Contains(e.Created, change.Service)
		case cloud.Deleted:
			fits = slices.Contains(e.Deleted, change.Service)
		case cloud.Retargeted:
			fits = isAmong(change.Joined, e.Joined) && isAmong(change.Left, e.Left)
		case cloud.Respecified:
			fits = slices.Contains(e.TakenBack, change.Service)
		}
		if !fits {
			wrong = append(wrong, fmt.Sprintf("the load balancer of %s was %s (joined %v, left %v)",
				change.Service, change.Action, change.Joined, change.Left))
		}
	}
	for _, expected := range []struct {
		action   cloud.Action
		services []string
		times    int
	}{{cloud.Created, e.Created, 1}, {cloud.Deleted, e.Deleted, 1}, {cloud.Respecified, e.TakenBack, 2}} {
		for _, service := range expected.services {
			times := 0
			for _, change := range changes {
				if change.Action == expected.action && change.Service == service {
					times++
				}
			}
			if times != expected.times {
				wrong = append(wrong, fmt.Sprintf("the load balancer of %s was %s %d times", service, expected.action, times))
			}
		}
	}
	slices.Sort(wrong)
	return count, wrong
}

// isAmong reports whether all the names are in the list.
func isAmong(names, list []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(list, name) })
}

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
