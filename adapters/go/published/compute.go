// Package published tries cloud providers as their vendors publish them. For Google's it has a fake of what that provider
// asks of the Compute API and of the metadata server.
package published

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Where the machines of a Compute are.
const (
	Project = "project-1"
	Zone    = "us-central1-b"
)

// Compute is the fake: it keeps each resource under its path, as it was sent, and each change is done at once.
type Compute struct {
	lock      sync.Mutex
	resources map[string]resource
}

type resource map[string]any

// NewCompute returns a cloud of these machines and of the network "default".
func NewCompute(machines []string) *Compute {
	resources := map[string]resource{root + "global/networks/default": {"name": "default"}}
	for index, name := range machines {
		resources[root+"zones/"+Zone+"/instances/"+name] = resource{
			"name": name, "zone": "zones/" + Zone, "machineType": "zones/" + Zone + "/machineTypes/e2-standard-2",
			"tags":              resource{"items": []string{name}},
			"networkInterfaces": []resource{{"networkIP": fmt.Sprintf("10.128.0.%d", index+2)}},
		}
	}
	return &Compute{resources: resources}
}

const root = "/compute/v1/projects/" + Project + "/"

// located divides a path into the place of the resource, such as regions/us-central1, and its name there.
var located = regexp.MustCompile("^" + root + "(global|regions/[^/]+|zones/[^/]+)/(.+)$")

// preview is an API version that has the same resources.
var preview = regexp.MustCompile("^/compute/(alpha|beta)/")

func (c *Compute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	body := resource{}
	err := json.NewDecoder(r.Body).Decode(&body)
	if err != nil && err != io.EOF {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, answer := c.answer(r, body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Metadata-Flavor", "Google")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *Compute) answer(r *http.Request, body resource) (int, resource) {
	at := preview.ReplaceAllString(r.URL.Path, "/compute/v1/")
	if strings.HasSuffix(at, "/token") {
		return http.StatusOK, resource{"access_token": "t", "expires_in": 3600, "token_type": "Bearer"}
	}
	place := located.FindStringSubmatch(at)
	if place == nil {
		return failure(http.StatusNotFound, at)
	}
	link := func(path string) string { return "http://" + r.Host + path }
	done := resource{"name": "done", "status": "DONE", "selfLink": link(root + place[1] + "/operations/done")}
	current, exists := c.resources[at]
	switch {
	case strings.HasPrefix(place[2], "operations/"):
		return http.StatusOK, done
	case r.Method == http.MethodGet && exists:
		return http.StatusOK, current
	case r.Method == http.MethodGet && !strings.Contains(place[2], "/"):
		items := []resource{}
		for _, name := range slices.Sorted(maps.Keys(c.resources)) {
			if path.Dir(name) == at {
				items = append(items, c.resources[name])
			}
		}
		return http.StatusOK, resource{"items": items}
	case r.Method == http.MethodPost && c.resources[path.Dir(at)] != nil: // a verb, such as addInstance
		if path.Base(at) == "addInstance" {
			pool := c.resources[path.Dir(at)]
			instances, _ := pool["instances"].([]any)
			for _, item := range body["instances"].([]any) {
				instances = append(instances, item.(map[string]any)["instance"])
			}
			pool["instances"] = instances
		}
		return http.StatusOK, done
	case r.Method == http.MethodPost:
		at = path.Join(at, fmt.Sprint(body["name"]))
		if c.resources[at] != nil {
			return failure(http.StatusConflict, at)
		}
		body["selfLink"] = link(at)
		if strings.HasPrefix(place[2], "addresses") && body["address"] == nil {
			body["address"] = "198.51.100.1"
		}
		c.resources[at] = body
		return http.StatusOK, done
	case !exists:
		return failure(http.StatusNotFound, at)
	case r.Method == http.MethodDelete:
		delete(c.resources, at)
	default: // PUT and PATCH
		maps.Copy(current, body)
	}
	return http.StatusOK, done
}

func failure(status int, at string) (int, resource) {
	return status, resource{"error": resource{"code": status, "message": at + ": " + http.StatusText(status)}}
}

// Config is the provider's cloud config for a Compute that serves this address. GCE_METADATA_HOST has to name the address, too.
func Config(address string) string {
	return fmt.Sprintf("[global]\nproject-id = %s\nlocal-zone = %s\nnetwork-name = default\nsubnetwork-name = default\n"+
		"api-endpoint = http://%s/compute/v1/\n", Project, Zone, address)
}
