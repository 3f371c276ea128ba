// This file answers about droplets, load balancers, certificates and tags.

package fakecloud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var region = map[string]any{
	"name": "New York 3", "slug": "nyc3", "available": true,
	"features": []string{"private_networking", "metadata"}, "sizes": []string{"s-2vcpu-4gb"},
}

func (c *Cloud) listDroplets(out http.ResponseWriter, request *http.Request) {
	name, named := request.URL.Query().Get("name"), request.URL.Query().Has("name")
	items := []map[string]any{}
	for _, droplet := range c.droplets {
		if !named || droplet.Name == name {
			items = append(items, droplet.show())
		}
	}
	c.page(out, request, "droplets", items)
}

func (c *Cloud) getDroplet(out http.ResponseWriter, id string) {
	for _, droplet := range c.droplets {
		if strconv.Itoa(droplet.ID) == id {
			answer(out, http.StatusOK, map[string]any{"droplet": droplet.show()})
			return
		}
	}
	notFound(out)
}

func (d *Droplet) show() map[string]any {
	v4, v6 := []any{}, []any{}
	for _, network := range []struct{ address, kind string }{{d.Private, "private"}, {d.Public, "public"}} {
		if network.address != "" {
			v4 = append(v4, map[string]any{
				"ip_address": network.address, "netmask": "255.255.240.0", "gateway": "10.110.0.1", "type": network.kind,
			})
		}
	}
	if d.IPv6 != "" {
		v6 = append(v6, map[string]any{
			"ip_address": d.IPv6, "netmask": 64, "gateway": "2001:db8::1", "type": "public",
		})
	}
	return map[string]any{
		"id": d.ID, "name": d.Name, "memory": 4096, "vcpus": 2, "disk": 80, "locked": false, "status": d.Status,
		"created_at": "2026-01-02T03:04:05Z", "features": []string{"private_networking"}, "backup_ids": []int{},
		"next_backup_window": nil, "snapshot_ids": []int{}, "volume_ids": []string{}, "tags": []string{},
		"image": map[string]any{"id": 1, "name": "24.04 x64", "distribution": "Ubuntu"}, "size_slug": "s-2vcpu-4gb",
		"size": map[string]any{
			"slug": "s-2vcpu-4gb", "memory": 4096, "vcpus": 2, "disk": 80, "transfer": 4.0, "price_monthly": 24.0,
			"price_hourly": 0.03571, "regions": []string{"nyc3"}, "available": true, "description": "Basic",
		},
		"networks": map[string]any{"v4": v4, "v6": v6}, "region": region,
		"vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000",
	}
}

func (c *Cloud) loadBalancers(out http.ResponseWriter, request *http.Request, id string) {
	index := slices.IndexFunc(c.balancers, func(other *balancer) bool { return other.id == id })
	switch {
	case request.Method == http.MethodGet && id == "":
		items := []map[string]any{}
		for _, balancer := range c.balancers {
			if c.clock().Sub(balancer.created) >= c.ListLag {
				items = append(items, c.showBalancer(balancer))
			}
		}
		c.page(out, request, "load_balancers", items)
	case request.Method == http.MethodPost && id == "":
		c.createBalancer(out, request)
	case index < 0:
		notFound(out)
	case request.Method == http.MethodGet:
		answer(out, http.StatusOK, map[string]any{"load_balancer": c.showBalancer(c.balancers[index])})
	case request.Method == http.MethodPut:
		fields := c.readBalancer(out, request, id)
		if fields == nil {
			return
		}
		delete(fields, "tags") // only a creation takes them
		c.balancers[index].fields = fields
		answer(out, http.StatusOK, map[string]any{"load_balancer": c.showBalancer(c.balancers[index])})
	case request.Method == http.MethodDelete:
		c.balancers = slices.Delete(c.balancers, index, index+1)
		out.WriteHeader(http.StatusNoContent)
	}
}

func (c *Cloud) createBalancer(out http.ResponseWriter, request *http.Request) {
	if c.MaxLoadBalancers > 0 && len(c.balancers) >= c.MaxLoadBalancers {
		refuse(out, http.StatusUnprocessableEntity, "unprocessable_entity",
			"creating this would exceed your load balancer limit")
		return
	}
	fields := c.readBalancer(out, request, "")
	if fields == nil {
		return
	}
	balancer := &balancer{id: c.uuid(), created: c.clock(), fields: fields}
	if tags, ok := fields["tags"].([]any); ok {
		for _, tag := range tags {
			name := fmt.Sprint(tag)
			balancer.tags = append(balancer.tags, name)
			c.tags[name] = struct{}{}
		}
	}
	c.balancers = append(c.balancers, balancer)
	answer(out, http.StatusAccepted, map[string]any{"load_balancer": c.showBalancer(balancer)})
}

// readBalancer refuses what the API refuses; nil: it has answered.
func (c *Cloud) readBalancer(out http.ResponseWriter, request *http.Request, id string) map[string]any {
	fields := map[string]any{}
	wrong := ""
	if err := json.NewDecoder(request.Body).Decode(&fields); err != nil {
		wrong = "the body is not JSON"
	}
	droplets, hasDroplets := fields["droplet_ids"].([]any)
	_, hasTag := fields["tag"].(string)
	rules, _ := fields["forwarding_rules"].([]any)
	switch {
	case wrong != "":
	case hasDroplets == hasTag:
		wrong = "exactly one of droplet_ids and tag is needed"
	case len(rules) == 0:
		wrong = "forwarding_rules is needed"
	case fields["size"] != nil && fields["size_unit"] != nil:
		wrong = "size and size_unit exclude each other"
	case slices.ContainsFunc(c.balancers, func(other *balancer) bool { return other.fields["name"] == fields["name"] && other.id != id }):
		wrong = "name is not unique"
	}
	for _, other := range droplets {
		exists := slices.ContainsFunc(c.droplets, func(droplet *Droplet) bool { return float64(droplet.ID) == other })
		if !exists && wrong == "" {
			wrong = fmt.Sprintf("droplet %v does not exist", other)
		}
	}
	if wrong != "" {
		refuse(out, http.StatusUnprocessableEntity, "unprocessable_entity", wrong)
		return nil
	}
	return fields
}

func (c *Cloud) showBalancer(balancer *balancer) map[string]any {
	shown := map[string]any{
		"size_unit": 1, "size": "lb-small", "algorithm": "round_robin", "redirect_http_to_https": false,
		"enable_proxy_protocol": false, "enable_backend_keepalive": false, "http_idle_timeout_seconds": 60,
		"disable_lets_encrypt_dns_records": false, "network": "EXTERNAL", "network_stack": "IPV4",
		"type": "REGIONAL", "tls_cipher_policy": "DEFAULT", "tag": "", "droplet_ids": []any{},
		"vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000", "ip": "",
	}
	maps.Copy(shown, balancer.fields)
	shown["id"], shown["region"], shown["created_at"] = balancer.id, region, balancer.created.UTC().Format(time.RFC3339Nano)
	shown["tags"] = append([]string{}, balancer.tags...)
	shown["status"] = "new"
	if c.clock().Sub(balancer.created) >= c.Provisioning {
		shown["status"] = cmp.Or(balancer.status, "active")
		number := fnv.New32()
		_, _ = number.Write([]byte(balancer.id))
		sum := number.Sum32()
		shown["ip"] = fmt.Sprintf("198.51.%d.%d", 100+sum>>8&1, sum&0xff)
		if shown["network_stack"] == "DUALSTACK" {
			shown["ipv6"] = fmt.Sprintf("2001:db8:1::%x", sum&0xffff)
		}
	}
	return shown
}

func (c *Cloud) certificates(out http.ResponseWriter, request *http.Request, id string) {
	show := func(id string) map[string]any {
		return map[string]any{"id": id, "name": c.Certificates[id], "type": "lets_encrypt", "state": "verified"}
	}
	if id == "" {
		items := []map[string]any{}
		for _, id := range slices.Sorted(maps.Keys(c.Certificates)) {
			items = append(items, show(id))
		}
		c.page(out, request, "certificates", items)
		return
	}
	if _, exists := c.Certificates[id]; !exists {
		notFound(out)
		return
	}
	answer(out, http.StatusOK, map[string]any{"certificate": show(id)})
}

func (c *Cloud) createTag(out http.ResponseWriter, request *http.Request) {
	var fields struct{ Name string }
	_ = json.NewDecoder(request.Body).Decode(&fields)
	c.tags[fields.Name] = struct{}{}
	answer(out, http.StatusCreated, map[string]any{"tag": map[string]any{"name": fields.Name}})
}

func (c *Cloud) tagResources(out http.ResponseWriter, request *http.Request, tag string) {
	var fields struct {
		Resources []struct {
			ID   string `json:"resource_id"`
			Type string `json:"resource_type"`
		}
	}
	_ = json.NewDecoder(request.Body).Decode(&fields)
	if _, exists := c.tags[tag]; !exists {
		notFound(out)
		return
	}
	for _, balancer := range c.balancers {
		for _, resource := range fields.Resources {
			if balancer.id == resource.ID && resource.Type == "load_balancer" {
				balancer.tags = append(balancer.tags, tag)
			}
		}
	}
	out.WriteHeader(http.StatusNoContent)
}

func (c *Cloud) deleteTag(out http.ResponseWriter, tag string) {
	if _, exists := c.tags[tag]; !exists {
		notFound(out)
		return
	}
	delete(c.tags, tag)
	for _, balancer := range c.balancers {
		balancer.tags = slices.DeleteFunc(balancer.tags, func(other string) bool { return strings.EqualFold(other, tag) })
	}
	out.WriteHeader(http.StatusNoContent)
}
