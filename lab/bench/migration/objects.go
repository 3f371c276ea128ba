// This file compares the Nodes and Services that stood before a step with those after it.

package migration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ours is the prefix of annotations and conditions that only Outrigger writes or reads.
const ours = "outrigger.dev/"

// Objects are Nodes and Services by kind and name, as far as a change of controllers must leave them alone.
type Objects map[string]map[string]any

// Snapshot of a cluster. Annotations and conditions of ours do not count.
func Snapshot(nodes []corev1.Node, services []corev1.Service) (Objects, error) {
	objects := Objects{}
	for _, node := range nodes {
		if err := objects.add("Node "+node.Name, stripped(node.ObjectMeta), node.Spec, node.Status); err != nil {
			return nil, err
		}
	}
	for _, service := range services {
		status := service.Status.DeepCopy()
		status.Conditions = slices.DeleteFunc(status.Conditions, func(condition metav1.Condition) bool {
			return strings.HasPrefix(condition.Type, ours)
		})
		if len(status.Conditions) == 0 {
			status.Conditions = nil
		}
		if err := objects.add("Service "+service.Name, stripped(service.ObjectMeta), service.Spec, status); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// stripped of versions, and of annotations of ours.
func stripped(object metav1.ObjectMeta) metav1.ObjectMeta {
	object = *object.DeepCopy()
	object.ResourceVersion, object.ManagedFields, object.Generation = "", nil, 0
	maps.DeleteFunc(object.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, ours) })
	if len(object.Annotations) == 0 {
		object.Annotations = nil
	}
	return object
}

func (o Objects) add(name string, metadata, spec, status any) error {
	text, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec, "status": status})
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	o[name] = fields
	return nil
}

// Has reports whether an object of either kind stood under this name.
func (o Objects) Has(name string) bool {
	_, node := o["Node "+name]
	_, service := o["Service "+name]
	return node || service
}

// Differences of the objects that stood before, one line for each field. Objects that came later do not count.
func (o Objects) Differences(after Objects) []string {
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		now, exists := after[name]
		if !exists {
			differences = append(differences, name+" is gone")
			continue
		}
		differences = append(differences, compare(name, o[name], now)...)
	}
	return differences
}

func compare(path string, before, after any) []string {
	old, isOld := before.(map[string]any)
	young, isYoung := after.(map[string]any)
	if isOld && isYoung {
		keys := map[string]bool{}
		for key := range old {
			keys[key] = true
		}
		for key := range young {
			keys[key] = true
		}
		var differences []string
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			differences = append(differences, compare(path+"."+key, old[key], young[key])...)
		}
		return differences
	}
	was, _ := json.Marshal(before) // was decoded from JSON
	is, _ := json.Marshal(after)
	if string(was) == string(is) {
		return nil
	}
	return []string{fmt.Sprintf("%s was %s, is %s", path, was, is)}
}
