// These tests make, change, take over and delete load balancers of a fake cloud.

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/fakecloud"
)

func TestLoadBalancerFromFirstToLast(t *testing.T) {
	r := newRig(t)
	r.cloud.Provisioning = time.Minute
	first, second := r.cloud.AddDroplet("node-1"), r.cloud.AddDroplet("node-2")
	web := service(nil)
	r.want(absent)(r.get(web))
	answer := r.want(inProgress)(r.ensure(web, node("node-1", first)))
	if answer.RetryAfter.AsDuration() != 10*time.Second {
		t.Errorf("asked again after %v", answer.RetryAfter)
	}
	r.want(inProgress)(r.get(web, node("node-1", first)))
	r.want(inProgress)(r.ensure(web, node("node-1", first)))
	r.cloud.Advance(time.Minute)
	answer = r.want(ready)(r.ensure(web, node("node-1", first)))
	made := r.only()
	if answer.Status.Ingress[0].Ip != made["ip"] || answer.Identity.Id != made["id"] || made["name"] != firstName {
		t.Errorf("answer %v about %v", answer, made)
	}
	if annotation := answer.Effects.SetAnnotations["kubernetes.digitalocean.com/load-balancer-id"]; annotation != made["id"] {
		t.Errorf("the annotation is %q", annotation)
	}
	r.want(ready)(r.get(web, node("node-1", first)))
	r.want(differs)(r.get(web, node("node-1", first), node("node-2", second)))
	r.want(ready)(r.update(web, node("node-1", first), node("node-2", second)))
	if droplets := fmt.Sprint(r.only()["droplet_ids"]); droplets != fmt.Sprintf("[%d %d]", first, second) {
		t.Errorf("the droplets are %s", droplets)
	}
	r.want(ready)(r.update(web)) // no nodes: a legal request
	r.want(ready)(r.get(web))
	r.want(ready)(r.ensure(web, node("node-1", first)))
	r.want(absent)(r.remove(web))
	r.want(absent)(r.remove(web))
	r.want(absent)(r.update(web, node("node-1", first)))
	if left := r.cloud.LoadBalancers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if tags := r.cloud.Tags(); !slices.Equal(tags, []string{"outrigger:" + clusterUID}) {
		t.Errorf("tags that are left: %q", tags)
	}
}

func TestSettledLoadBalancerCostsOneRequest(t *testing.T) {
	r := newRig(t)
	id := r.cloud.AddDroplet("node-1")
	web := service(nil)
	r.want(ready)(r.ensure(web, node("node-1", id)))
	r.cloud.TakeCalls()
	r.want(ready)(r.ensure(web, node("node-1", id)))
	want := []string{"GET load_balancers/" + fmt.Sprint(r.only()["id"])}
	if calls := r.cloud.TakeCalls(); !slices.Equal(calls, want) {
		t.Errorf("requests %q, want %q", calls, want)
	}
}

func TestLostAnswerMakesNoSecondLoadBalancer(t *testing.T) {
	r := newRig(t)
	r.cloud.ListLag = time.Minute // not even a list shows it
	r.cloud.Break(fakecloud.Fault{Method: "POST", Path: "load_balancers", Times: 1})
	web := service(nil)
	_, err := r.ensure(web)
	r.wantReason(err, provider.CloudUnavailable)
	_, err = r.ensure(web)
	r.wantReason(err, provider.ConflictingResource)
	r.cloud.Advance(time.Minute)
	r.want(ready)(r.ensure(web))
	r.only()
}

func TestIdentityOfTheCallFindsWhatListsDoNotShowAfterARestart(t *testing.T) {
	r := newRig(t)
	r.cloud.ListLag = time.Minute
	answer := r.want(ready)(r.ensure(service(nil)))
	other := rigOn(t, r.cloud, r.url)
	removed, err := other.balancers.DeleteLoadBalancer(other.ctx, &v1.DeleteLoadBalancerRequest{
		Context: other.call, Service: service(nil), Identity: answer.Identity,
	})
	if left := r.cloud.LoadBalancers(); err != nil || len(left) != 0 {
		t.Error(removed, err, left)
	}
}

func TestForeignLoadBalancerIsNeverTouched(t *testing.T) {
	r := newRig(t)
	r.cloud.AddLoadBalancer("shared")
	r.cloud.AddLoadBalancer("other", "outrigger:another-cluster", "outrigger:another-cluster:"+serviceUID)
	before := r.cloud.LoadBalancers()
	for _, name := range []string{"shared", "other"} {
		_, err := r.ensure(service(map[string]string{"name": name}))
		r.wantReason(err, provider.ConflictingResource)
		r.want(absent)(r.remove(service(map[string]string{"name": name})))
	}
	named := service(nil)
	named.Annotations["kubernetes.digitalocean.com/load-balancer-id"] = fmt.Sprint(before[0]["id"])
	_, err := r.ensure(named)
	r.wantReason(err, provider.ConflictingResource)
	r.want(absent)(r.remove(named))
	if after := r.cloud.LoadBalancers(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("before %v, after %v", before, after)
	}
	// An annotation that was copied with the manifest names another Service's.
	named.Annotations["kubernetes.digitalocean.com/load-balancer-id"] = fmt.Sprint(before[1]["id"])
	r.want(ready)(r.ensure(named))
	if count := len(r.cloud.LoadBalancers()); count != 3 {
		t.Errorf("there are %d load balancers", count)
	}
}

func TestOperatorCanTakeLoadBalancersOver(t *testing.T) {
	r := newRig(t, func(s *settings) { s.adopt = true })
	id := r.cloud.AddLoadBalancer("old")
	web := service(map[string]string{"name": "new"})
	web.Annotations["kubernetes.digitalocean.com/load-balancer-id"] = id
	answer := r.want(ready)(r.ensure(web))
	if made := r.only(); answer.Identity.Id != id || made["name"] != "new" {
		t.Errorf("answer %v about %v", answer, made)
	}
	r.want(absent)(r.remove(web))
	if left := r.cloud.LoadBalancers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDisownedLoadBalancerIsLeftAlone(t *testing.T) {
	r := newRig(t)
	web := service(nil)
	r.want(ready)(r.ensure(web))
	web.Annotations["service.kubernetes.io/do-loadbalancer-disown"] = "true"
	r.want(notManaged)(r.ensure(web))
	r.want(notManaged)(r.update(web))
	r.want(retained)(r.remove(web))
	r.only()
}

func TestRefusalsOfTheCloud(t *testing.T) {
	for _, test := range []struct {
		fault fakecloud.Fault
		want  provider.Reason
	}{
		{fakecloud.Fault{Status: 401}, provider.CredentialsInvalid},
		{fakecloud.Fault{Status: 403, Message: "You are not authorized"}, provider.PermissionMissing},
		{fakecloud.Fault{Status: 409}, provider.Conflict},
		{fakecloud.Fault{Status: 422, Message: "bad rule"}, provider.CloudError},
		{fakecloud.Fault{Status: 422, Message: "this exceeds your limit"}, provider.QuotaExceeded},
		{fakecloud.Fault{Status: 429}, provider.RateLimited},
		{fakecloud.Fault{Status: 500}, provider.CloudError},
		{fakecloud.Fault{Status: 503}, provider.CloudUnavailable},
	} {
		r := newRig(t)
		test.fault.Method, test.fault.Path, test.fault.Times = "POST", "load_balancers", 1
		r.cloud.Break(test.fault)
		_, err := r.ensure(service(nil))
		r.wantReason(err, test.want)
		r.want(ready)(r.ensure(service(nil)))
	}
	r := newRig(t)
	r.want(ready)(r.ensure(service(nil)))
	r.cloud.ChangeLoadBalancer(firstName, "status", "errored")
	_, err := r.ensure(service(nil))
	r.wantReason(err, provider.CloudError)
	r.want(differs)(r.get(service(nil)))
}

func TestAnnotations(t *testing.T) {
	const certificate = "892071a0-bb95-49bc-8021-3afd67a210bf"
	for name, test := range map[string]struct {
		annotations map[string]string
		service     func(*v1.Service)
		field       string
		want        string
	}{
		"packets go to the port itself": {nil, nil, "forwarding_rules",
			"[map[entry_port:80 entry_protocol:tcp target_port:80 target_protocol:tcp]]"},
		"a proxy sends to the node port": {map[string]string{"type": "REGIONAL"}, nil, "forwarding_rules",
			"[map[entry_port:80 entry_protocol:tcp target_port:30080 target_protocol:tcp]]"},
		"http": {map[string]string{"type": "REGIONAL", "protocol": "http"}, nil, "forwarding_rules",
			"[map[entry_port:80 entry_protocol:http target_port:30080 target_protocol:http]]"},
		"tls": {map[string]string{"type": "REGIONAL", "tls-ports": "80", "certificate-id": certificate}, nil,
			"forwarding_rules", "[map[certificate_id:" + certificate +
				" entry_port:80 entry_protocol:https target_port:30080 target_protocol:http]]"},
		"passthrough": {map[string]string{"type": "REGIONAL", "http2-ports": "80", "tls-passthrough": "true"}, nil,
			"forwarding_rules", "[map[entry_port:80 entry_protocol:http2 target_port:30080 target_protocol:http2 tls_passthrough:true]]"},
		"udp": {nil, func(s *v1.Service) { s.Ports[0].Protocol = "UDP" }, "forwarding_rules",
			"[map[entry_port:80 entry_protocol:udp target_port:80 target_protocol:udp]]"},
		"kube-proxy is checked": {nil, nil, "health_check", "map[check_interval_seconds:3 healthy_threshold:5 path:/healthz " +
			"port:10256 protocol:http proxy_protocol:false response_timeout_seconds:5 unhealthy_threshold:3]"},
		"with Local its own port is checked": {map[string]string{"healthcheck-check-interval-seconds": "9"}, func(s *v1.Service) {
			s.ExternalTrafficPolicy, s.HealthCheckNodePort = "Local", 31000
		}, "health_check", "map[check_interval_seconds:9 healthy_threshold:5 path:/healthz port:31000 protocol:http " +
			"proxy_protocol:false response_timeout_seconds:5 unhealthy_threshold:3]"},
		"overridden check": {map[string]string{"override-health-check": "true", "healthcheck-path": "/ok"}, nil,
			"health_check", "map[check_interval_seconds:3 healthy_threshold:5 path:/ok port:30080 protocol:http " +
				"response_timeout_seconds:5 unhealthy_threshold:3]"},
		"size":     {map[string]string{"size-unit": "4"}, nil, "size_unit", "4"},
		"internal": {map[string]string{"network": "INTERNAL"}, nil, "network", "INTERNAL"},
		"dual stack": {nil, func(s *v1.Service) {
			s.IpFamilies, s.IpFamilyPolicy = []string{"IPv4", "IPv6"}, "RequireDualStack"
		}, "network_stack", "DUALSTACK"},
		"cookies": {map[string]string{"sticky-sessions-type": "cookies", "sticky-sessions-cookie-name": "DO-LB",
			"sticky-sessions-cookie-ttl": "60"}, nil, "sticky_sessions", "map[cookie_name:DO-LB cookie_ttl_seconds:60 type:cookies]"},
		"source ranges win": {map[string]string{"allow-rules": "ip:1.2.3.4", "deny-rules": "cidr:2.0.0.0/8"}, func(s *v1.Service) {
			s.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
		}, "firewall", "map[allow:[cidr:10.0.0.0/8] deny:[cidr:2.0.0.0/8]]"},
		"idle timeout":  {map[string]string{"http-idle-timeout-seconds": "90"}, nil, "http_idle_timeout_seconds", "90"},
		"PROXY":         {map[string]string{"enable-proxy-protocol": "true"}, nil, "enable_proxy_protocol", "true"},
		"keep-alive":    {map[string]string{"enable-backend-keepalive": "true"}, nil, "enable_backend_keepalive", "true"},
		"redirect":      {map[string]string{"redirect-http-to-https": "true"}, nil, "redirect_http_to_https", "true"},
		"cipher policy": {map[string]string{"tls-cipher-policy": "STRONG"}, nil, "tls_cipher_policy", "STRONG"},
		"DNS records": {map[string]string{"disable-lets-encrypt-dns-records": "true"}, nil,
			"disable_lets_encrypt_dns_records", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			web := service(test.annotations)
			if test.service != nil {
				test.service(web)
			}
			r.want(ready)(r.ensure(web))
			if made := fmt.Sprint(r.only()[test.field]); made != test.want {
				t.Errorf("%s is %s, want %s", test.field, made, test.want)
			}
			r.cloud.TakeCalls()
			r.want(ready)(r.get(web)) // a second look shows no difference
			// Taking the annotations back changes it back, but not what is fixed.
			if test.annotations["type"] == "" && test.field != "network" && test.field != "network_stack" {
				r.want(ready)(r.ensure(service(nil)))
				r.want(ready)(r.get(service(nil)))
			}
		})
	}
}

func TestWrongServicesAreRefused(t *testing.T) {
	r := newRig(t)
	changed := func(change func(*v1.Service)) *v1.Service {
		made := service(nil)
		change(made)
		return made
	}
	for name, test := range map[string]struct {
		service *v1.Service
		want    provider.Reason
	}{
		"SCTP":           {changed(func(s *v1.Service) { s.Ports[0].Protocol = "SCTP" }), provider.UnsupportedProtocol},
		"an address":     {changed(func(s *v1.Service) { s.LoadBalancerIp = "1.2.3.4" }), provider.InvalidAnnotation},
		"affinity":       {changed(func(s *v1.Service) { s.SessionAffinity = "ClientIP" }), provider.UnsupportedFeature},
		"IPv6 alone":     {changed(func(s *v1.Service) { s.IpFamilies = []string{"IPv6"} }), provider.UnsupportedFeature},
		"a wrong flag":   {service(map[string]string{"enable-proxy-protocol": "yes"}), provider.InvalidAnnotation},
		"a wrong number": {service(map[string]string{"size-unit": "0"}), provider.InvalidAnnotation},
		"two sizes":      {service(map[string]string{"size-unit": "2", "size-slug": "lb-small"}), provider.InvalidAnnotation},
		"a wrong port":   {service(map[string]string{"tls-ports": "81"}), provider.InvalidAnnotation},
		"no certificate": {service(map[string]string{"type": "REGIONAL", "protocol": "https"}), provider.InvalidAnnotation},
		"http on the network": {service(map[string]string{"type": "REGIONAL_NETWORK", "protocol": "http"}),
			provider.InvalidAnnotation},
		"a wrong rule":  {service(map[string]string{"deny-rules": "1.2.3.4"}), provider.InvalidAnnotation},
		"a wrong name":  {service(map[string]string{"name": "-web"}), provider.InvalidAnnotation},
		"half a cookie": {service(map[string]string{"sticky-sessions-type": "cookies"}), provider.InvalidAnnotation},
		"no certificate of that name": {service(map[string]string{"type": "REGIONAL", "certificate-name": "web", "tls-ports": "80"}),
			provider.DependencyNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			test.service.Uid = serviceUID
			_, err := r.ensure(test.service)
			r.wantReason(err, test.want)
			if left := r.cloud.LoadBalancers(); len(left) != 0 {
				t.Errorf("made all the same: %v", left)
			}
		})
	}
}

func TestFixedFieldsCannotChange(t *testing.T) {
	r := newRig(t)
	r.want(ready)(r.ensure(service(map[string]string{"network": "INTERNAL"})))
	_, err := r.ensure(service(map[string]string{"network": "EXTERNAL"}))
	r.wantReason(err, provider.InvalidAnnotation)
	r.want(ready)(r.ensure(service(nil))) // without the annotation it stays
	if network := r.only()["network"]; network != "INTERNAL" {
		t.Errorf("the network is %v", network)
	}
}

func TestSecondFamilyStays(t *testing.T) {
	r := newRig(t)
	web := service(nil)
	web.IpFamilies, web.IpFamilyPolicy = []string{"IPv4", "IPv6"}, "RequireDualStack"
	r.want(ready)(r.ensure(web))
	web.IpFamilies, web.IpFamilyPolicy = []string{"IPv4"}, "SingleStack"
	_, err := r.ensure(web)
	r.wantReason(err, provider.InvalidAnnotation)
}

func TestRenewedCertificateStays(t *testing.T) {
	r := newRig(t)
	r.cloud.Change(func(c *fakecloud.Cloud) { c.Certificates["old"] = "web" })
	byName := service(map[string]string{"type": "REGIONAL", "certificate-name": "web", "tls-ports": "80"})
	byID := service(map[string]string{"type": "REGIONAL", "certificate-id": "old", "tls-ports": "80"})
	r.want(ready)(r.ensure(byID))
	r.cloud.Change(func(c *fakecloud.Cloud) { c.Certificates = map[string]string{"renewed": "web"} })
	r.want(ready)(r.ensure(byName))
	r.want(ready)(r.ensure(byID)) // its annotation names one that is gone
	rule := r.only()["forwarding_rules"].([]any)[0].(map[string]any)
	if rule["certificate_id"] != "renewed" {
		t.Errorf("the certificate is %v", rule["certificate_id"])
	}
}

func TestIngressTellsKubeProxyOfProxies(t *testing.T) {
	r := newRig(t)
	answer := r.want(ready)(r.ensure(service(map[string]string{"type": "REGIONAL", "protocol": "http"})))
	if mode := answer.Status.Ingress[0].GetIpMode(); mode != "Proxy" {
		t.Errorf("the mode is %q", mode)
	}
	answer = r.want(ready)(r.ensure(service(map[string]string{"hostname": "Web.Example.com", "misspelt": "1"})))
	want := []*v1.LoadBalancerIngress{{Hostname: "web.example.com"}}
	if !slices.EqualFunc(answer.Status.Ingress, want, func(a, b *v1.LoadBalancerIngress) bool { return proto.Equal(a, b) }) {
		t.Errorf("the ingress is %v", answer.Status.Ingress)
	}
	if events := answer.Effects.Events; len(events) != 1 || events[0].Reason != "UnknownAnnotation" {
		t.Errorf("the events are %v", events)
	}
}
