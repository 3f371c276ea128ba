// This file says a write to a Service or Node in the words of the contract's effects.

package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// write is a request that changes a Service or Node.
type write struct {
	// patch is the content type of a patch; empty: an update.
	patch types.PatchType
	body  []byte
	// isStatus: to the subresource. There the API server ignores a change of spec, elsewhere one of status.
	isStatus bool
}

// appliedTo is what the write makes of an object.
func (w write) appliedTo(object runtime.Object) (after runtime.Object, err error) {
	if w.patch == "" {
		after, _, err = scheme.Codecs.UniversalDeserializer().Decode(w.body, nil, nil)
		if err == nil && reflect.TypeOf(after) != reflect.TypeOf(object) {
			err = errors.New("its body is an object of another kind")
		}
		return after, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var patched []byte
	switch w.patch {
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(w.body); err == nil {
			patched, err = patch.Apply(before)
		}
	case types.MergePatchType:
		patched, err = jsonpatch.MergePatch(before, w.body)
	case types.StrategicMergePatchType, types.ApplyPatchType: // fields that an earlier apply had, and this one has not, stay
		var patch []byte
		if patch, err = yaml.YAMLToJSON(w.body); err == nil {
			patched, err = strategicpatch.StrategicMergePatch(before, patch, object)
		}
	default:
		err = fmt.Errorf("no patch has the type %q", w.patch)
	}
	if err != nil {
		return nil, err
	}
	after = reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
	return after, json.Unmarshal(patched, after)
}

// changes are what the write changes on an object. The error says what effects cannot do of it.
func (w write) changes(before runtime.Object, declared *v1.EffectsCapability) (changes, error) {
	after, err := w.appliedTo(before)
	if err != nil {
		return changes{}, err
	}
	if err := w.checkOtherFields(before, after); err != nil {
		return changes{}, err
	}
	made := changes{annotations: map[string]*string{}, conditions: map[string]*v1.Condition{}}
	prefixes, option := declared.ServiceAnnotationPrefixes, "ServiceAnnotationPrefixes"
	if _, ok := before.(*corev1.Node); ok {
		prefixes, option = declared.NodeAnnotationPrefixes, "NodeAnnotationPrefixes"
	}
	from, to := before.(metav1.Object).GetAnnotations(), after.(metav1.Object).GetAnnotations()
	for _, key := range changedKeys(from, to, func(a, b string) bool { return a == b }) {
		if err := checkKey("annotation", key, prefixes, option); err != nil {
			return changes{}, err
		}
		made.annotations[key] = nil
		if value, isSet := to[key]; isSet {
			made.annotations[key] = &value
		}
	}
	if !w.isStatus {
		return made, nil
	}
	had, has := conditionsOf(before), conditionsOf(after)
	for _, kind := range changedKeys(had, has, func(a, b *v1.Condition) bool { return proto.Equal(a, b) }) {
		if err := checkKey("condition", kind, declared.ConditionTypePrefixes, "ConditionTypePrefixes"); err != nil {
			return changes{}, err
		}
		made.conditions[kind] = has[kind]
	}
	return made, nil
}

// checkOtherFields fails if a field differs that is no effect.
func (w write) checkOtherFields(before, after runtime.Object) error {
	from, err := fieldsOf(before)
	if err != nil {
		return err
	}
	to, err := fieldsOf(after)
	if err != nil {
		return err
	}
	ignored := "status."
	if w.isStatus {
		ignored = "spec."
	}
	for _, field := range changedKeys(from, to, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		switch field {
		case "metadata.annotations", "status.conditions", "metadata.resourceVersion", "metadata.managedFields", "metadata.generation":
		default:
			if !strings.HasPrefix(field, ignored) {
				return fmt.Errorf("it changes %s, and only annotations, conditions and events are written for the provider", field)
			}
		}
	}
	return nil
}

// fieldsOf are the fields of metadata, spec and status as JSON, by names such as "metadata.labels".
func fieldsOf(object runtime.Object) (map[string]json.RawMessage, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var parts struct{ Metadata, Spec, Status map[string]json.RawMessage }
	if err := json.Unmarshal(encoded, &parts); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for part, content := range map[string]map[string]json.RawMessage{
		"metadata.": parts.Metadata, "spec.": parts.Spec, "status.": parts.Status,
	} {
		for name, value := range content {
			fields[part+name] = value
		}
	}
	return fields, nil
}

// changedKeys are the keys whose values differ, in order.
func changedKeys[V any](from, to map[string]V, isSame func(a, b V) bool) []string {
	var changed []string
	for key, value := range to {
		if former, had := from[key]; !had || !isSame(former, value) {
			changed = append(changed, key)
		}
	}
	for key := range from {
		if _, has := to[key]; !has {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return changed
}

func checkKey(what, key string, prefixes []string, option string) error {
	if !hasPrefix(key, prefixes) {
		return fmt.Errorf("the %s %q is under none of the prefixes of serve.Options.Effects: declare its prefix in %s, and grant "+
			"it with the controller's --provider-effect-prefixes", what, key, option)
	}
	return nil
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func conditionsOf(object runtime.Object) map[string]*v1.Condition {
	conditions := map[string]*v1.Condition{}
	note := func(kind, status, reason, message string) {
		conditions[kind] = &v1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	switch object := object.(type) {
	case *corev1.Service:
		for _, c := range object.Status.Conditions {
			note(c.Type, string(c.Status), c.Reason, c.Message)
		}
	case *corev1.Node:
		for _, c := range object.Status.Conditions {
			note(string(c.Type), string(c.Status), c.Reason, c.Message)
		}
	}
	return conditions
}
