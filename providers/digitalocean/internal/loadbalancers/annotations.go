// This file reads annotations, and gathers what is wrong with them.

package loadbalancers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// Annotations of Services that DigitalOcean's own cloud-controller-manager reads, too.
const (
	// AnnotationPrefix of the annotations that shape a load balancer.
	AnnotationPrefix = "service.beta.kubernetes.io/do-loadbalancer-"
	// DisownAnnotation: "true" leaves the load balancer alone, also when the Service goes.
	DisownAnnotation = "service.kubernetes.io/do-loadbalancer-disown"
	// IDAnnotation names the load balancer; written by this provider, and read as a hint.
	IDAnnotation = "kubernetes.digitalocean.com/load-balancer-id"
)

// annotations reads those of one Service and gathers all that is wrong with them.
type annotations struct {
	values map[string]string
	read   map[string]struct{}
	wrong  []string
	// options are those that annotations were set for, by the key.
	options map[string]string
	// conflict is between an option and an annotation of the user's.
	conflict error
}

func annotationsOf(service *v1.Service) *annotations {
	a := &annotations{values: service.Annotations, read: map[string]struct{}{}, options: map[string]string{}}
	a.setOptions(service.LoadBalancerOptions)
	return a
}

func (a *annotations) refuse(key, format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf("%s%s: %s", AnnotationPrefix, key, fmt.Sprintf(format, args...)))
}

// err is what is wrong with all that was read, if anything is.
func (a *annotations) err() error {
	if len(a.wrong) > 0 {
		return provider.Errorf(provider.InvalidAnnotation, "%s", strings.Join(a.wrong, "; "))
	}
	return a.conflict
}

// unknown are the annotations with our prefix that were not read, sorted.
func (a *annotations) unknown() []string {
	var keys []string
	for key := range a.values {
		if _, read := a.read[key]; !read && strings.HasPrefix(key, AnnotationPrefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (a *annotations) text(key string) string {
	a.read[AnnotationPrefix+key] = struct{}{}
	return strings.TrimSpace(a.values[AnnotationPrefix+key])
}

func (a *annotations) flag(key string) bool {
	text := a.text(key)
	if text == "" {
		return false
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		a.refuse(key, "%q is neither true nor false", text)
	}
	return value
}

// number between least and most; fallback where it is not set.
func (a *annotations) number(key string, least, most, fallback int) int {
	text := a.text(key)
	if text == "" {
		return fallback
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		a.refuse(key, "%q is no number from %d to %d", text, least, most)
		return fallback
	}
	return value
}

// choice is one of the values, or empty where it is not set.
func (a *annotations) choice(key string, values ...string) string {
	text := a.text(key)
	if text != "" && !slices.Contains(values, text) {
		a.refuse(key, "%q is none of %s", text, strings.Join(values, ", "))
		return ""
	}
	return text
}

// list is separated by commas.
func (a *annotations) list(key string) []string {
	var entries []string
	for entry := range strings.SplitSeq(a.text(key), ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// ports of the Service, separated by commas.
func (a *annotations) ports(key string, service *v1.Service) []int32 {
	var ports []int32
	for _, entry := range a.list(key) {
		port, err := strconv.ParseInt(entry, 10, 32)
		if err != nil || !slices.ContainsFunc(service.Ports, func(candidate *v1.ServicePort) bool { return candidate.Port == int32(port) }) {
			a.refuse(key, "%q is no port of the Service", entry)
			continue
		}
		ports = append(ports, int32(port))
	}
	return ports
}
