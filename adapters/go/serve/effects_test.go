// These tests hold that a write to the object of a call becomes its effects, or is refused with what effects cannot do.

package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

var declared = &v1.EffectsCapability{
	ServiceAnnotationPrefixes: []string{"vendor.example/"},
	NodeAnnotationPrefixes:    []string{"node.vendor.example/"},
	ConditionTypePrefixes:     []string{"vendor.example/"},
}

// remembered is a Service as a call brings it, with what an earlier one has written.
func remembered() *corev1.Service {
	made := serviceOf(service())
	made.Annotations = map[string]string{"vendor.example/id": "1", "other.example/x": "y"}
	return made
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEachFormOfAWriteBecomesEffects(t *testing.T) {
	update := remembered()
	update.Annotations = map[string]string{"vendor.example/new": "2", "other.example/x": "y"}
	status := remembered()
	status.Status.Conditions = []metav1.Condition{{Type: "vendor.example/Ready", Status: "True", Reason: "Made", Message: "it is"}}
	ready := []*v1.Condition{{Type: "vendor.example/Ready", Status: "True", Reason: "Made", Message: "it is"}}
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	both := &v1.KubernetesEffects{
		SetAnnotations: map[string]string{"vendor.example/new": "2"}, RemoveAnnotations: []string{"vendor.example/id"},
	}
	for name, test := range map[string]struct {
		write  write
		before runtime.Object
		want   *v1.KubernetesEffects
	}{
		"update":        {write{body: encoded(t, update)}, remembered(), both},
		"update status": {write{body: encoded(t, status), isStatus: true}, remembered(), &v1.KubernetesEffects{SetAnnotations: map[string]string{}, Conditions: ready}},
		"merge patch": {write{
			patch: types.MergePatchType, body: []byte(`{"metadata":{"annotations":{"vendor.example/new":"2","vendor.example/id":null}}}`),
		}, remembered(), both},
		"JSON patch": {write{patch: types.JSONPatchType, body: []byte(`[
			{"op":"add","path":"/metadata/annotations/vendor.example~1new","value":"2"},
			{"op":"remove","path":"/metadata/annotations/vendor.example~1id"}]`)}, remembered(), both},
		"strategic patch of the status": {write{
			patch: types.StrategicMergePatchType, isStatus: true, body: []byte(`{"metadata":{"annotations":{"vendor.example/new":"2","vendor.example/id":null}},
				"status":{"conditions":[{"type":"vendor.example/Ready","status":"True","reason":"Made","message":"it is"}]}}`),
		}, remembered(), &v1.KubernetesEffects{
			SetAnnotations: both.SetAnnotations, RemoveAnnotations: both.RemoveAnnotations, Conditions: ready,
		}},
		"apply": {write{
			patch: types.ApplyPatchType, body: []byte("kind: Service\napiVersion: v1\nmetadata: {name: s, annotations: {vendor.example/new: \"2\"}}\n"),
		}, remembered(), &v1.KubernetesEffects{SetAnnotations: both.SetAnnotations}},
		"of a Node": {write{
			patch: types.MergePatchType, body: []byte(`{"metadata":{"annotations":{"node.vendor.example/rack":"7"}}}`),
		}, node, &v1.KubernetesEffects{SetAnnotations: map[string]string{"node.vendor.example/rack": "7"}}},
		"a field that the API server ignores": {write{
			patch: types.MergePatchType, isStatus: true, body: []byte(`{"spec":{"type":"ClusterIP"}}`),
		}, remembered(), nil},
		"what is there already": {write{body: encoded(t, remembered())}, remembered(), nil},
	} {
		made, err := test.write.changes(test.before, declared)
		if err != nil || !proto.Equal(made.sent(), test.want) {
			t.Errorf("%s: %v %v", name, made.sent(), err)
		}
		after := made.appliedTo(test.before)
		again, err := test.write.changes(after, declared)
		if err != nil && test.write.patch != types.JSONPatchType || !again.isEmpty() {
			t.Errorf("%s, once it is written: %v %v", name, again.sent(), err)
		}
	}
}

func TestAWriteThatEffectsCannotDoIsRefused(t *testing.T) {
	for why, patch := range map[string]string{
		"metadata.labels":                `{"metadata":{"labels":{"a":"b"}}}`,
		"metadata.finalizers":            `{"metadata":{"finalizers":["a.example/b"]}}`,
		"metadata.uid":                   `{"metadata":{"uid":"another"}}`,
		"status.loadBalancer":            `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`,
		`"other.example/x" is under no`:  `{"metadata":{"annotations":{"other.example/x":"z"}}}`,
		`"other.example/Up" is under no`: `{"status":{"conditions":[{"type":"other.example/Up","status":"True","reason":"R"}]}}`,
	} {
		_, err := write{patch: types.MergePatchType, body: []byte(patch), isStatus: true}.changes(remembered(), declared)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	_, err := write{patch: types.MergePatchType, body: []byte(`{"spec":{"externalName":"x"}}`)}.changes(remembered(), declared)
	if err == nil || !strings.Contains(err.Error(), "spec.externalName") {
		t.Error(err)
	}
}

func TestWhatACallWritesGoesWithItsAnswersOnce(t *testing.T) {
	memory := newMemory()
	path := servicePath("n", "s")
	release := memory.hold(path)
	memory.sawService(remembered())
	patch := []byte(`{"metadata":{"annotations":{"vendor.example/id":"2"}}}`)
	if err := memory.change(path, nil, write{patch: types.MergePatchType, body: patch}, declared); err != nil {
		t.Fatal(err)
	}
	for index := range maxEvents + 1 {
		event := &v1.KubernetesEvent{Type: "Normal", Reason: "R", Message: fmt.Sprint(index)}
		if is, want := memory.record(path, event), index < maxEvents; is != want {
			t.Error(index, is)
		}
	}
	if !memory.record(path, &v1.KubernetesEvent{Type: "Normal", Reason: "R", Message: "0"}) {
		t.Error("an event that is there already needs no room")
	}
	// Early, while the call runs: the annotation comes once more with its end, the events do not.
	for turn, events := range []int{maxEvents, 0} {
		effects := memory.take(path, answerEffectBytes)
		if len(effects.GetEvents()) != events || effects.GetSetAnnotations()["vendor.example/id"] != "2" {
			t.Error(turn, effects)
		}
	}
	release()
	if effects := memory.take(path, 10); effects != nil { // in an error that has no more room
		t.Error(effects)
	}
	if effects := memory.take(path, answerEffectBytes); effects.GetSetAnnotations()["vendor.example/id"] != "2" {
		t.Error(effects)
	}
	if effects := memory.take(path, answerEffectBytes); effects != nil {
		t.Error("effects are answered twice", effects)
	}
}

// The controller sends no conditions, so that only the memory knows of one that is to be removed.
func TestAConditionIsRemovedByALaterCall(t *testing.T) {
	memory := newMemory()
	path := servicePath("n", "s")
	call := func(uid, patch string) *v1.KubernetesEffects {
		t.Helper()
		came := remembered()
		came.UID = types.UID(uid)
		release := memory.hold(path)
		memory.sawService(came)
		err := memory.change(path, nil, write{patch: types.StrategicMergePatchType, body: []byte(patch), isStatus: true}, declared)
		if err != nil {
			t.Error(err)
		}
		release()
		return memory.take(path, answerEffectBytes)
	}
	set := `{"status":{"conditions":[{"type":"vendor.example/Ready","status":"True","reason":"Made"}]}}`
	remove := `{"status":{"conditions":[{"type":"vendor.example/Ready","$patch":"delete"}]}}`
	if effects := call("1", set); len(effects.GetConditions()) != 1 {
		t.Error(effects)
	}
	if effects := call("1", set); effects != nil {
		t.Error("it is there already", effects)
	}
	if effects := call("1", remove); len(effects.GetRemoveConditions()) != 1 {
		t.Error(effects)
	}
	if effects := call("1", set); len(effects.GetConditions()) != 1 {
		t.Error(effects)
	}
	if effects := call("2", remove); effects != nil {
		t.Error("another Service under the name had none", effects)
	}
}

func TestChangesOfADeletedServiceAreNotThoseOfItsSuccessor(t *testing.T) {
	memory := newMemory()
	path := servicePath("n", "s")
	release := memory.hold(path)
	memory.sawService(remembered())
	patch := []byte(`{"metadata":{"annotations":{"vendor.example/id":"old"}}}`)
	if err := memory.change(path, nil, write{patch: types.MergePatchType, body: patch}, declared); err != nil {
		t.Fatal(err)
	}
	release()
	successor := remembered()
	successor.UID = "2"
	memory.sawService(successor)
	if effects := memory.take(path, answerEffectBytes); effects != nil {
		t.Error(effects)
	}
}
