// This file keeps what a cloud has changed on a Service or Node, as effects of the next answer about it.

package serve

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// changes are effects by their keys, so that a later one replaces an earlier one.
type changes struct {
	// annotations by key; nil: removed.
	annotations map[string]*string
	// conditions by type; nil: removed.
	conditions map[string]*v1.Condition
	events     []*v1.KubernetesEvent
}

// and are the changes with later ones after them.
func (c changes) and(later changes) changes {
	sum := changes{map[string]*string{}, map[string]*v1.Condition{}, slices.Concat(c.events, later.events)}
	for _, part := range []changes{c, later} {
		maps.Copy(sum.annotations, part.annotations)
		maps.Copy(sum.conditions, part.conditions)
	}
	return sum
}

func (c changes) isEmpty() bool { return len(c.annotations)+len(c.conditions)+len(c.events) == 0 }

// sent are the changes as an answer carries them; nil: there are none.
func (c changes) sent() *v1.KubernetesEffects {
	if c.isEmpty() {
		return nil
	}
	effects := &v1.KubernetesEffects{Events: c.events, SetAnnotations: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(c.annotations)) {
		if value := c.annotations[key]; value != nil {
			effects.SetAnnotations[key] = *value
		} else {
			effects.RemoveAnnotations = append(effects.RemoveAnnotations, key)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.conditions)) {
		if condition := c.conditions[kind]; condition != nil {
			effects.Conditions = append(effects.Conditions, condition)
		} else {
			effects.RemoveConditions = append(effects.RemoveConditions, kind)
		}
	}
	return effects
}

// appliedTo is a copy of a Service or Node that has the changes.
func (c changes) appliedTo(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	if named := object.(metav1.Object); len(c.annotations) > 0 {
		annotations := named.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for key, value := range c.annotations {
			if value != nil {
				annotations[key] = *value
			} else {
				delete(annotations, key)
			}
		}
		named.SetAnnotations(annotations)
	}
	for _, kind := range slices.Sorted(maps.Keys(c.conditions)) {
		condition := c.conditions[kind]
		switch object := object.(type) {
		case *corev1.Service:
			if condition == nil {
				meta.RemoveStatusCondition(&object.Status.Conditions, kind)
				continue
			}
			meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionStatus(condition.Status), Reason: condition.Reason, Message: condition.Message,
			})
		case *corev1.Node:
			others := slices.DeleteFunc(object.Status.Conditions, func(c corev1.NodeCondition) bool { return string(c.Type) == kind })
			if condition != nil {
				others = append(others, corev1.NodeCondition{
					Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(condition.Status),
					Reason: condition.Reason, Message: condition.Message, LastTransitionTime: metav1.Now(),
				})
			}
			object.Status.Conditions = others
		}
	}
	return object
}
