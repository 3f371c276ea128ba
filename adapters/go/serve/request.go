// This file reads the requests of a cloud's Kubernetes clients, and makes their answers.

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// target is what a request is about, in the words of RBAC.
type target struct {
	verb, resource, subresource string
	// object is the path of the Node or Service that is got or written, or whose status is; empty: none is.
	object string
}

func (t target) isWrite() bool { return t.object != "" && (t.verb == "patch" || t.verb == "update") }

func (t target) isEvent() bool { return t.resource == "events" && t.verb == "create" }

func targetOf(request *http.Request) target {
	path := request.URL.Path
	_, core, isCore := strings.Cut(path, "/api/v1/") // an API server may be behind a path of another one
	_, group, isGroup := strings.Cut(path, "/apis/")
	var parts []string
	switch {
	case isCore:
		parts = strings.Split(core, "/")
	case isGroup && strings.Count(group, "/") > 1:
		parts = strings.Split(group, "/")[2:]
	default: // /version and the like
		return target{verb: "get", resource: path[strings.LastIndex(path, "/")+1:]}
	}
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	to := target{resource: parts[0], verb: map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}[request.Method]}
	watchParameter := request.URL.Query().Get("watch")
	switch {
	case watchParameter == "true" || watchParameter == "1":
		to.verb = "watch"
	case to.verb == "get" && len(parts) == 1:
		to.verb = "list"
	}
	if len(parts) > 2 {
		to.subresource = parts[2]
	}
	if !isCore || len(parts) < 2 || (to.subresource != "" && to.subresource != "status") {
		return to
	}
	switch to.resource {
	case "nodes":
		to.object = nodePath(parts[1])
	case "services":
		to.object = servicePath(namespace, parts[1])
	}
	return to
}

// bodyOf reads the body of a request; nil: it has none.
func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	defer func() { _ = request.Body.Close() }()
	return io.ReadAll(request.Body)
}

// eventOf is the event of a request, and the object that it is about; nil: it is none that is known.
func eventOf(body []byte) (corev1.ObjectReference, *v1.KubernetesEvent) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return corev1.ObjectReference{}, nil
	}
	switch event := object.(type) {
	case *corev1.Event:
		return event.InvolvedObject, &v1.KubernetesEvent{Type: event.Type, Reason: event.Reason, Message: event.Message}
	case *eventsv1.Event:
		return event.Regarding, &v1.KubernetesEvent{Type: event.Type, Reason: event.Reason, Message: event.Note}
	default:
		return corev1.ObjectReference{}, nil
	}
}

// logEvent logs an event that is no effect, because without rights it cannot be stored.
func logEvent(body []byte) {
	if of, event := eventOf(body); event != nil {
		provider.CallOf(context.Background()).Log.Info("event of the cloud's code, which the controller does not write",
			"object", of.Kind+" "+of.Namespace+"/"+of.Name, "type", event.Type, "reason", event.Reason, "event", event.Message)
	}
}

func failure(reason metav1.StatusReason, code int32, text string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: text,
	}
}

func objectResponse(request *http.Request, code int, object runtime.Object) (*http.Response, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return bodyResponse(request, code, "application/json", encoded), nil
}

func bodyResponse(request *http.Request, code int, contentType string, body []byte) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}
}
