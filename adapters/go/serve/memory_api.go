// This file answers a cloud's Kubernetes requests from the objects that memory.go remembers, for a provider that has
// no rights in Kubernetes. It refuses all other requests; events it only logs.

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"outrigger.dev/adapters/go/provider"
)

// memoryAPI is the transport of the cloud's Kubernetes clients. It answers a get of a Node or Service that a call of the
// controller brought. It refuses lists and watches, because the cloud would take the remembered part for the whole, and
// a get of any other object, because the cloud would take "not found" for a deletion.
type memoryAPI struct {
	get func(path string) runtime.Object

	mu sync.Mutex
	// refused has the requests whose refusal was logged; clouds repeat them, so each is logged once.
	refused map[string]bool
}

// config returns the configuration of clients whose requests memoryAPI answers.
func (a *memoryAPI) config() *rest.Config {
	return &rest.Config{Host: "http://provider-without-rights.invalid", Transport: a, QPS: -1}
}

// RoundTrip answers a request.
func (a *memoryAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	body, contentType := []byte(nil), request.Header.Get("Content-Type")
	if request.Body != nil {
		defer func() { _ = request.Body.Close() }()
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	verb, resource := verbAndResource(request)
	var object runtime.Object
	if verb == "get" {
		object = a.get(request.URL.Path)
	}
	switch {
	case object != nil:
		return objectResponse(request, http.StatusOK, object)
	case verb == "create" && resource == "events":
		logEvent(body)
		return bodyResponse(request, http.StatusCreated, contentType, body), nil
	case (verb == "patch" || verb == "update") && resource == "events":
		// A recorder that updates an event creates it again if there is none.
		return objectResponse(request, http.StatusNotFound, failure(metav1.StatusReasonNotFound, http.StatusNotFound, "no event is kept"))
	default:
		text := fmt.Sprintf("cannot %s %s: without rights of its own in Kubernetes the provider knows only the Nodes and "+
			"Services of the controller's calls, by their names, and changes nothing; name its rights with --kubeconfig", verb, resource)
		a.logOnce(verb+" "+resource, text)
		return objectResponse(request, http.StatusForbidden, failure(metav1.StatusReasonForbidden, http.StatusForbidden, text))
	}
}

func (a *memoryAPI) logOnce(what, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused == nil {
		a.refused = map[string]bool{}
	}
	if !a.refused[what] {
		a.refused[what] = true
		provider.CallOf(context.Background()).Log.Warn("the cloud's code made a request to Kubernetes that is refused", "error", text)
	}
}

// verbAndResource returns the names that RBAC has for a request.
func verbAndResource(request *http.Request) (verb, resource string) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default: // /version and the like
		return "get", parts[len(parts)-1]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb = map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}[request.Method]
	watchParameter := request.URL.Query().Get("watch")
	switch {
	case watchParameter == "true" || watchParameter == "1":
		verb = "watch"
	case verb == "get" && len(parts) == 1:
		verb = "list"
	}
	return verb, parts[0]
}

// logEvent logs an event, because without rights it cannot be stored.
func logEvent(body []byte) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return // an event of a later version
	}
	line := func(of corev1.ObjectReference, kind, reason, message string) {
		provider.CallOf(context.Background()).Log.Info("event of the cloud's code, which the controller does not write",
			"object", of.Kind+" "+of.Namespace+"/"+of.Name, "type", kind, "reason", reason, "event", message)
	}
	switch event := object.(type) {
	case *corev1.Event:
		line(event.InvolvedObject, event.Type, event.Reason, event.Message)
	case *eventsv1.Event:
		line(event.Regarding, event.Type, event.Reason, event.Note)
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
