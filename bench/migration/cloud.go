package migration

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/bench/cloud"
)

// Touched is the number of changes in the cloud by their action.
type Touched map[cloud.Action]int

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

// Wanted is what was asked for during a step: nothing else may happen in the cloud.
type Wanted struct {
	// Created and Deleted are Services, as namespace/name; Joined are Nodes that came since the start.
	Created, Deleted, Joined []string
}

// Judge counts the changes of a step, and names each that was not asked for.
func (w Wanted) Judge(changes []cloud.Change) (Touched, []string) {
	count := Touched{}
	var wrong []string
	for _, change := range changes {
		count[change.Action]++
		fits := false
		switch change.Action {
		case cloud.Created:
			fits = slices.Contains(w.Created, change.Service)
		case cloud.Deleted:
			fits = slices.Contains(w.Deleted, change.Service)
		case cloud.Retargeted:
			fits = len(change.Left) == 0 && !slices.ContainsFunc(change.Joined, func(node string) bool {
				return !slices.Contains(w.Joined, node)
			})
		case cloud.Respecified:
		}
		if !fits {
			wrong = append(wrong, fmt.Sprintf("the load balancer of %s was %s (joined %v, left %v)",
				change.Service, change.Action, change.Joined, change.Left))
		}
	}
	for action, services := range map[cloud.Action][]string{cloud.Created: w.Created, cloud.Deleted: w.Deleted} {
		for _, service := range services {
			times := 0
			for _, change := range changes {
				if change.Action == action && change.Service == service {
					times++
				}
			}
			if times != 1 {
				wrong = append(wrong, fmt.Sprintf("the load balancer of %s was %s %d times", service, action, times))
			}
		}
	}
	slices.Sort(wrong)
	return count, wrong
}
