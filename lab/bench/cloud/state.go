// This file keeps the state of a durable cloud in a file that several processes share: what exists, the history of its
// changes, and the faults that a test switches on.

package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// State is what exists in the cloud, what was changed, and which faults are on.
type State struct {
	// Machines by the names of their nodes; true: powered off. Any other machine does not exist.
	Machines map[string]bool `json:"machines"`
	// Balancers by their names in the cloud.
	Balancers map[string]Balancer `json:"balancers"`
	// Undeletable are the names of load balancers that cannot be deleted, as if something else used them.
	Undeletable []string `json:"undeletable,omitempty"`
	// Addresses counts those that load balancers got so far: one that is created again gets another address.
	Addresses int `json:"addresses"`
	// Changes of load balancers, in their order.
	Changes []Change `json:"changes"`
}

// Balancer is a load balancer.
type Balancer struct {
	Service string   `json:"service"`
	Address string   `json:"address"`
	Nodes   []string `json:"nodes"`
	// Spec is the rest of what the Service says about the load balancer.
	Spec string `json:"spec"`
}

// Change is a change that was really made to a load balancer, not just requested.
type Change struct {
	Action  Action `json:"action"`
	Service string `json:"service"`
	// Joined and Left are the nodes that the load balancer got or lost.
	Joined []string `json:"joined,omitempty"`
	Left   []string `json:"left,omitempty"`
}

// Action is the kind of a change.
type Action string

const (
	Created Action = "created"
	Deleted Action = "deleted"
	// Retargeted is a change of the nodes.
	Retargeted Action = "retargeted"
	// Respecified is a change of the spec: of ports, annotations and the like. A call that changes both makes two changes.
	Respecified Action = "respecified"
)

var errInUse = errors.New("the load balancer is in use by something else")

// Store keeps a state in a file that several processes share.
type Store struct{ Path string }

// Read returns the current state, which is empty before the first change.
func (s Store) Read() (*State, error) {
	var current *State
	err := s.Update(func(state *State) error {
		current = state
		return nil
	})
	return current, err
}

// Update changes the state under a lock that all processes share. An error of the change leaves the state as it was.
func (s Store) Update(change func(*State) error) error {
	lock, err := os.OpenFile(s.Path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("cannot open the lock of the cloud's state: %w", err)
	}
	defer func() { _ = lock.Close() }() // unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock the cloud's state: %w", err)
	}
	state := &State{Machines: map[string]bool{}, Balancers: map[string]Balancer{}}
	stored, err := os.ReadFile(s.Path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(stored, state); err != nil {
			return fmt.Errorf("the cloud's state: %w", err)
		}
	}
	before, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := change(state); err != nil {
		return err
	}
	after, err := json.Marshal(state)
	if err != nil || slices.Equal(before, after) {
		return err
	}
	// A process may be killed while it writes.
	if err := os.WriteFile(s.Path+".new", after, 0o644); err != nil {
		return err
	}
	return os.Rename(s.Path+".new", s.Path)
}

// ensure creates or changes a load balancer and returns it.
func (s *State) ensure(name string, desired Balancer) Balancer {
	slices.Sort(desired.Nodes)
	balancer, exists := s.Balancers[name]
	if !exists {
		s.Addresses++
		desired.Address = fmt.Sprintf("192.0.2.%d", s.Addresses)
		s.Balancers[name] = desired
		s.Changes = append(s.Changes, Change{Action: Created, Service: desired.Service, Joined: desired.Nodes})
		return desired
	}
	if balancer.Spec != desired.Spec {
		s.Changes = append(s.Changes, Change{Action: Respecified, Service: desired.Service})
		balancer.Spec = desired.Spec
		s.Balancers[name] = balancer
	}
	s.retarget(name, desired.Nodes)
	return s.Balancers[name]
}

func (s *State) retarget(name string, nodes []string) {
	slices.Sort(nodes)
	balancer := s.Balancers[name]
	joined, left := without(nodes, balancer.Nodes), without(balancer.Nodes, nodes)
	if len(joined)+len(left) > 0 {
		s.Changes = append(s.Changes, Change{Action: Retargeted, Service: balancer.Service, Joined: joined, Left: left})
	}
	balancer.Nodes = nodes
	s.Balancers[name] = balancer
}

func (s *State) delete(name string) error {
	balancer, exists := s.Balancers[name]
	if !exists {
		return nil
	}
	if slices.Contains(s.Undeletable, name) {
		return errInUse
	}
	delete(s.Balancers, name)
	s.Changes = append(s.Changes, Change{Action: Deleted, Service: balancer.Service})
	return nil
}

// without returns the names that are not among the others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}
