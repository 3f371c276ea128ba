// This file remembers which dependencies of a provider work, for its status.

package provider

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Dependencies are the things that a provider depends on, as its last calls have shown them; its Status can be
// Provider.Status. It is never BROKEN: a restart mends neither a cloud nor credentials.
type Dependencies struct {
	mu       sync.Mutex
	statuses []*v1.DependencyStatus
}

// NewDependencies returns dependencies that are ready. Names are short and stable, such as "cloud-api" and "credentials".
func NewDependencies(names ...string) *Dependencies {
	d := &Dependencies{}
	for _, name := range names {
		d.statuses = append(d.statuses, &v1.DependencyStatus{Name: name, Readiness: v1.Readiness_READINESS_READY})
	}
	return d
}

// Works notes that a call has just shown that these dependencies work.
func (d *Dependencies) Works(names ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dependency := range d.statuses {
		if slices.Contains(names, dependency.Name) {
			dependency.Readiness, dependency.Message = v1.Readiness_READINESS_READY, ""
			dependency.LastSuccess = timestamppb.New(time.Now())
		}
	}
}

// Fails notes why a call has just failed. Operators read the text, so it must contain no secrets.
func (d *Dependencies) Fails(name, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dependency := range d.statuses {
		if dependency.Name == name {
			dependency.Readiness, dependency.Message = v1.Readiness_READINESS_DEGRADED, cut(why)
		}
	}
}

// Status is READY, or DEGRADED while one of them fails.
func (d *Dependencies) Status() *v1.GetStatusResponse {
	d.mu.Lock()
	defer d.mu.Unlock()
	status := &v1.GetStatusResponse{Readiness: v1.Readiness_READINESS_READY}
	for _, dependency := range d.statuses {
		if dependency.Readiness != v1.Readiness_READINESS_READY {
			status.Readiness = v1.Readiness_READINESS_DEGRADED
		}
		status.Dependencies = append(status.Dependencies, proto.CloneOf(dependency))
	}
	return status
}
