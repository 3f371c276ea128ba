// This file remembers the Nodes and Services that the controller's calls have brought, and what the cloud's code has
// changed on them since.

package serve

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// forgetAfter is when a Node or Service that no call was about is not known any more. The controller asks about each
// Node every few minutes, and a call about a Service brings it along.
const forgetAfter = time.Hour

// memory has the Nodes and Services that the controller's calls brought, by their path in the API. They are a part of
// the cluster, and never known to be all of it.
type memory struct {
	now func() time.Time
	// targets are the Nodes of the node sets, as long as calls may name them.
	targets *nodeCache

	mu      sync.Mutex
	objects map[string]*entry
	swept   time.Time
}

type entry struct {
	// object as the last call brought it, with the changes; nil: it is gone.
	object runtime.Object
	at     time.Time
	// calls of the cloud that are about it now.
	calls int
	// changes for the next answer about the object. They stay for later answers while a call runs, since what they
	// change may not be written yet; events do not.
	changes changes
}

func newMemory() *memory {
	m := &memory{now: time.Now, objects: map[string]*entry{}}
	m.targets = &nodeCache{ofOneCall: m.sawNode}
	return m
}

func nodePath(name string) string { return "/api/v1/nodes/" + name }

func servicePath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/services/" + name
}

func (m *memory) sawNode(node *corev1.Node) { m.saw(nodePath(node.Name), node) }

func (m *memory) sawService(service *corev1.Service) {
	m.saw(servicePath(service.Namespace, service.Name), service)
}

func (m *memory) saw(path string, object runtime.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, current := m.now(), m.entry(path)
	former := changes{}
	if current.object != nil && uidOf(current.object) == uidOf(object) {
		// The controller sends no conditions; those of the cloud's are known from its writes.
		former.conditions = conditionsOf(current.object)
		for kind := range conditionsOf(object) {
			delete(former.conditions, kind)
		}
	} else {
		current.changes = changes{}
	}
	// A copy, since the cloud's code gets the object that came, and may change it.
	current.object, current.at = former.and(current.changes).appliedTo(object), now
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for path, entry := range m.objects {
		if now.Sub(entry.at) > forgetAfter && entry.calls == 0 {
			delete(m.objects, path)
		}
	}
}

func uidOf(object runtime.Object) types.UID { return object.(metav1.Object).GetUID() }

// entry of a path, with the lock held.
func (m *memory) entry(path string) *entry {
	if m.objects[path] == nil {
		m.objects[path] = &entry{at: m.now()}
	}
	return m.objects[path]
}

// forget drops an object that is gone, as far as the cloud is concerned.
func (m *memory) forget(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(path).object = nil
}

// get is the object as a call brought it last, with the cloud's changes; nil: not known, which does not mean that there is none.
func (m *memory) get(path string) runtime.Object {
	m.mu.Lock()
	var object runtime.Object
	if entry := m.objects[path]; entry != nil {
		object = entry.object
	}
	m.mu.Unlock()
	if node := m.targets.get(path); object == nil && node != nil {
		return node
	}
	return object
}

// MarshalJSON has the objects that are known. An error that may quote any of them holds the memory: most are never read.
func (m *memory) MarshalJSON() ([]byte, error) {
	m.mu.Lock()
	objects := make([]any, 0, len(m.objects))
	for _, entry := range m.objects {
		objects = append(objects, entry.object)
	}
	m.mu.Unlock()
	return json.Marshal(objects)
}

// hold counts a call of the cloud about an object until it is released. Writes to it are taken as effects meanwhile.
func (m *memory) hold(path string) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.entry(path)
	held.calls++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		held.calls--
	}
}

// isHeld tells whether a call of the cloud is about the object.
func (m *memory) isHeld(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[path] != nil && m.objects[path].calls > 0
}

var errNotHeld = errors.New("no call of the controller about the object is running, and only the answer to one carries its changes")

// change takes a write to the object of a call as effects of its answer. It is made to base; nil: to the object as it is remembered.
func (m *memory) change(path string, base runtime.Object, made write, declared *v1.EffectsCapability) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.objects[path]
	if held == nil || held.calls == 0 || held.object == nil {
		return errNotHeld
	}
	if base == nil {
		base = held.object
	}
	more, err := made.changes(base, declared)
	if err != nil {
		return err
	}
	held.changes, held.object = held.changes.and(more), more.appliedTo(held.object)
	return nil
}

// changed are the changes of an object by the calls that are about it.
func (m *memory) changed(path string) changes {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry := m.objects[path]; entry != nil {
		return entry.changes
	}
	return changes{}
}

// maxEvents of one answer.
const maxEvents = 10

// record takes an event about the object of a call as an effect of its answer; false: there is no call, or no room.
func (m *memory) record(path string, event *v1.KubernetesEvent) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.objects[path]
	if held == nil || held.calls == 0 {
		return false
	}
	isRepeated := slices.ContainsFunc(held.changes.events, func(earlier *v1.KubernetesEvent) bool { return proto.Equal(earlier, event) })
	if !isRepeated && len(held.changes.events) == maxEvents {
		return false
	}
	if !isRepeated {
		held.changes = held.changes.and(changes{events: []*v1.KubernetesEvent{event}})
	}
	return true
}

// take are the effects for an answer about the object, of at most so many bytes; nil: there are none. Events that
// do not fit are lost, other changes wait for the next answer.
func (m *memory) take(path string, bytes int) *v1.KubernetesEffects {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.objects[path]
	if entry == nil {
		return nil
	}
	effects := entry.changes.sent()
	for len(effects.GetEvents()) > 0 && proto.Size(effects) > bytes {
		effects.Events = effects.Events[:len(effects.Events)-1]
	}
	entry.changes.events = nil
	if proto.Size(effects) > bytes {
		return nil
	}
	if entry.calls == 0 {
		entry.changes = changes{}
	}
	return effects
}

// Room for effects: in an answer for all, in an error beside its text and reason.
const (
	answerEffectBytes = 192 << 10
	errorEffectBytes  = 2 << 10
)

// failed is the error of a call about the object, with the effects beside it.
func (m *memory) failed(path string, err error) error {
	var named *provider.Error
	if !errors.As(err, &named) {
		return err
	}
	// Classify may hand one error to several calls.
	return provider.Errorf(named.Reason, "%w", err).WithRetryAfter(named.RetryAfter).WithEffects(m.take(path, errorEffectBytes))
}
