// This file remembers the Nodes and Services that the controller's calls have brought.

package serve

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	objects map[string]entry
	swept   time.Time
}

type entry struct {
	object runtime.Object
	at     time.Time
}

func newMemory() *memory {
	m := &memory{now: time.Now, objects: map[string]entry{}}
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
	object = object.DeepCopyObject() // the cloud's code gets the one that came, and may change it
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.objects[path] = entry{object, now}
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for path, entry := range m.objects {
		if now.Sub(entry.at) > forgetAfter {
			delete(m.objects, path)
		}
	}
}

// forget drops an object that is gone, as far as the cloud is concerned.
func (m *memory) forget(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, path)
}

// get is the object as a call brought it last; nil: not known, which does not mean that there is none.
func (m *memory) get(path string) runtime.Object {
	m.mu.Lock()
	entry, ok := m.objects[path]
	m.mu.Unlock()
	if ok {
		return entry.object
	}
	if node := m.targets.get(path); node != nil {
		return node
	}
	return nil
}
