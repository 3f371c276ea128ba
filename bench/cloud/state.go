// This file has the state of a durable cloud, in a file that several processes share.

package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// State is what the cloud has and what was done to it.
type State struct {
	// Machines by the names of their nodes; true: powered off. Any other machine does not exist.
	Machines map[string]bool `json:"machines"`
	// Balancers by their names in the cloud.
	Balancers map[string]Balancer `json:"balancers"`
	// Kept are the names of load balancers that cannot be deleted, as if something else used them.
	Kept []string `json:"kept,omitempty"`
	// Addresses that were given so far: a load balancer that is made again gets another one.
	Addresses int `json:"addresses"`
	// Changes of load balancers, in their order.
	Changes []Change `json:"changes"`
}

// Balancer is a load balancer.
type Balancer struct {
	Service string   `json:"service"`
	Address string   `json:"address"`
	Nodes   []string `json:"nodes"`
	// Spec is all else that a Service says about it.
	Spec string `json:"spec"`
}

// Change is one of a load balancer, not merely a call that asked for it.
type Change struct {
	Action  Action `json:"action"`
	Service string `json:"service"`
	// Joined and Left are the nodes that it got or lost.
	Joined []string `json:"joined,omitempty"`
	Left   []string `json:"left,omitempty"`
}

// Action is the kind of a change.
type Action string

const (
	Created Action = "created"
	Deleted Action = "deleted"
	// Retargeted: it has other nodes, and nothing else has changed.
	Retargeted Action = "retargeted"
	// Respecified: it has other ports, annotations or the like.
	Respecified Action = "respecified"
)

var errKept = errors.New("the load balancer is in use by something else")

// Store keeps a state in a file that several processes share.
type Store struct{ Path string }

// Read returns the current state; a state that was never written is empty.
func (s Store) Read() (*State, error) {
	var current *State
	err := s.Update(func(state *State) error {
		current = state
		return nil
	})
	return current, err
}

// Update changes the state while no other process does; an error of the change leaves it as it was.
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
	before, err := os.ReadFile(s.Path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(before, state); err != nil {
			return fmt.Errorf("the cloud's state: %w", err)
		}
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

// ensure makes or changes a load balancer and returns it.
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
	if slices.Contains(s.Kept, name) {
		return errKept
	}
	delete(s.Balancers, name)
	s.Changes = append(s.Changes, Change{Action: Deleted, Service: balancer.Service})
	return nil
}

// without are the names in the first list that the second one does not have.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}
