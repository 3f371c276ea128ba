// This file is the transport of a cloud's Kubernetes clients. It takes writes to the object of a call as effects of the
// answer. Other requests go to the API server, if the provider has rights there; without rights it answers from the
// objects that memory.go remembers, and refuses the rest.

package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// objectsAPI is the transport of the cloud's Kubernetes clients.
//
// Without rights it refuses lists and watches, because the cloud would take the remembered part for the whole, and
// a get of any other object, because the cloud would take "not found" for a deletion.
type objectsAPI struct {
	memory *memory
	// effects that writes may become; nil: none.
	effects *v1.EffectsCapability
	// next leads to the API server; nil: the provider has no rights there.
	next http.RoundTripper
	// refused are the kinds of requests whose refusal was logged.
	refused news
}

// RoundTrip answers a request.
func (a *objectsAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	to := targetOf(request)
	if a.next != nil && to.object == "" && !to.isEvent() {
		return a.next.RoundTrip(request)
	}
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	contentType, why := request.Header.Get("Content-Type"), "it knows only the Nodes and Services of the controller's calls, by their names"
	switch {
	case to.isWrite():
		err := a.write(request, to, body)
		if err == nil {
			return a.written(request, to)
		}
		why = err.Error()
	case to.isEvent() && a.effects != nil && a.record(body):
		return bodyResponse(request, http.StatusCreated, contentType, body), nil
	}
	object := a.memory.get(to.object)
	switch {
	case a.next != nil:
		return a.forward(request, to, body)
	case to.verb == "get" && object != nil:
		return objectResponse(request, http.StatusOK, object)
	case to.isEvent():
		logEvent(body)
		return bodyResponse(request, http.StatusCreated, contentType, body), nil
	case to.resource == "events" && (to.verb == "patch" || to.verb == "update"):
		// A recorder that updates an event creates it again if there is none.
		return objectResponse(request, http.StatusNotFound, failure(metav1.StatusReasonNotFound, http.StatusNotFound, "no event is kept"))
	default:
		text := fmt.Sprintf("cannot %s %s %s: %s", to.verb, to.resource, lacksRights, why)
		if a.refused.is(to.verb + " " + to.resource) { // clouds repeat them
			provider.CallOf(context.Background()).Log.Warn("the cloud's code made a request to Kubernetes that is refused", "error", text)
		}
		return objectResponse(request, http.StatusForbidden, failure(metav1.StatusReasonForbidden, http.StatusForbidden, text))
	}
}

// write takes a write as effects. The error says why it is none.
func (a *objectsAPI) write(request *http.Request, to target, body []byte) error {
	switch {
	case a.effects == nil:
		return errors.New("serve.Options.Effects declares no effects")
	case !a.memory.isHeld(to.object):
		return errNotHeld
	case request.URL.Query().Has("dryRun"):
		return errors.New("an effect has no dry run")
	}
	made := write{body: body, isStatus: to.subresource == "status"}
	if to.verb == "patch" {
		mediaType, _, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		made.patch = types.PatchType(mediaType)
	}
	var base runtime.Object
	if a.next != nil && (to.verb == "patch" || !isHanded(body)) {
		base = a.read(request, to)
	}
	return a.memory.change(to.object, base, made, a.effects)
}

// written answers a write that has become effects, with the object as it is once they are written.
func (a *objectsAPI) written(request *http.Request, to target) (*http.Response, error) {
	if a.next != nil {
		if object := a.read(request, to); object != nil {
			return objectResponse(request, http.StatusOK, object)
		}
	}
	return objectResponse(request, http.StatusOK, a.memory.get(to.object))
}

// forward sends a request to the API server.
func (a *objectsAPI) forward(request *http.Request, to target, body []byte) (*http.Response, error) {
	forwarded := request.Clone(request.Context())
	switch {
	case to.verb == "get" && !a.memory.changed(to.object).isEmpty():
		if object := a.read(request, to); object != nil {
			return objectResponse(request, http.StatusOK, object)
		}
	case to.verb == "update":
		if patch := a.patchInstead(to, body); patch != nil {
			forwarded.Method, body = http.MethodPatch, patch
			forwarded.Header.Set("Content-Type", string(types.StrategicMergePatchType))
		}
	}
	if body != nil {
		forwarded.Body, forwarded.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		forwarded.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return a.next.RoundTrip(forwarded)
}

// patchInstead is what an update of an object changes that the cloud was handed, as a patch: the handed object is a part
// of the real one, and the update would remove the rest, such as a Service's selector and finalizers. Nil: another update.
func (a *objectsAPI) patchInstead(to target, body []byte) []byte {
	handed := a.memory.get(to.object)
	if handed == nil || !isHanded(body) {
		return nil
	}
	after, err := write{body: body}.appliedTo(handed)
	if err != nil {
		return nil
	}
	before, beforeErr := json.Marshal(handed)
	desired, desiredErr := json.Marshal(after)
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, desired, handed)
	if cmp.Or(beforeErr, desiredErr, err) != nil {
		return nil
	}
	return patch
}

// isHanded tells whether a body is an object that the cloud was handed, and not one that it has read.
func isHanded(body []byte) bool {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	named, ok := object.(metav1.Object)
	return err == nil && ok && named.GetResourceVersion() == handedVersion
}

// read gets the Node or Service of a request from the API server, with the changes of the calls about it; nil: it could not.
func (a *objectsAPI) read(request *http.Request, to target) runtime.Object {
	get := request.Clone(request.Context())
	get.Method, get.Body, get.GetBody, get.ContentLength = http.MethodGet, nil, nil, 0
	get.URL.Path, get.URL.RawPath, get.URL.RawQuery = strings.TrimSuffix(get.URL.Path, "/status"), "", ""
	get.Header.Set("Accept", "application/json")
	get.Header.Del("Content-Type")
	response, err := a.next.RoundTrip(get)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil
	}
	return a.memory.changed(to.object).appliedTo(object)
}

// record takes an event about the object of a call as an effect.
func (a *objectsAPI) record(body []byte) bool {
	of, event := eventOf(body)
	switch {
	case event == nil:
		return false
	case of.Kind == "Service":
		return a.memory.record(servicePath(of.Namespace, of.Name), event)
	case of.Kind == "Node":
		return a.memory.record(nodePath(of.Name), event)
	default:
		return false
	}
}

// maxNews is how many texts are remembered: kubelets and users can make ever new ones.
const maxNews = 10_000

// news are log lines that are repeated, each of which is written once, or again after many others.
type news struct {
	mu   sync.Mutex
	said map[string]bool
}

// is tells whether the text is new.
func (n *news) is(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[text] {
		return false
	}
	if n.said == nil || len(n.said) == maxNews {
		n.said = map[string]bool{}
	}
	n.said[text] = true
	return true
}
