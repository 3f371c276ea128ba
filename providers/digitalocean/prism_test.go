// This test holds the requests against DigitalOcean's own description of its API.

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/fakecloud"
)

const prismPackage = "@stoplight/prism-cli@5.14.2"

// Prism refuses requests, and the fake's answers, that do not fit the API's description: so the provider
// sends what the API takes, and the fake's shapes are the API's.
func TestRequestsFitTheDescriptionByPrism(t *testing.T) {
	description := os.Getenv("DIGITALOCEAN_OPENAPI")
	if description == "" {
		t.Skip("DIGITALOCEAN_OPENAPI is not set: download the description of the API, bundled into one file, from " +
			"https://github.com/digitalocean/openapi, and name the file there")
	}
	cloud := fakecloud.New("first")
	cloud.Freeze()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	r := rigOn(t, cloud, prism(t, description, server.URL), func(s *settings) {
		s.vpc = "760e09ef-dc84-11e8-981e-3cfdfeaae000"
	})
	cloud.Provisioning = time.Minute

	first, second := cloud.AddDroplet("node-1"), cloud.AddDroplet("node-2")
	got := r.mustLookup(node("node-1", first), node("node-2", 0), node("gone", 1))
	if got["node-1"].GetFound() == nil || got["node-2"].GetFound() == nil || !isAbsent(got["gone"]) {
		t.Errorf("found %v", got)
	}
	if err := r.lookupError(node("node-2", 0)); err != nil {
		t.Error(err)
	}
	web := service(map[string]string{
		"type": "REGIONAL", "tls-ports": "80", "certificate-id": "892071a0-bb95-49bc-8021-3afd67a210bf", "size-unit": "2",
		"sticky-sessions-type": "cookies", "sticky-sessions-cookie-name": "DO-LB", "sticky-sessions-cookie-ttl": "60",
		"allow-rules": "ip:1.2.3.4", "http-idle-timeout-seconds": "90", "tls-cipher-policy": "STRONG",
	})
	r.want(absent)(r.get(web))
	r.want(inProgress)(r.ensure(web)) // without nodes
	r.want(inProgress)(r.ensure(web, node("node-1", first)))
	cloud.Advance(time.Minute)
	r.want(ready)(r.ensure(web, node("node-1", first)))
	r.want(ready)(r.get(web, node("node-1", first)))
	r.want(ready)(r.update(web, node("node-1", first), node("node-2", second)))
	r.want(ready)(r.update(web))
	web.Annotations["service.beta.kubernetes.io/do-loadbalancer-size-unit"] = "3"
	r.want(ready)(r.ensure(web, node("node-2", second)))
	r.want(absent)(r.remove(web))
	network := &v1.Service{
		Namespace: "default", Name: "dns", Uid: "9b2f1e4d-0000-4000-8000-000000000003", IpFamilies: []string{"IPv4", "IPv6"},
		IpFamilyPolicy: "RequireDualStack", Ports: []*v1.ServicePort{{Protocol: "UDP", Port: 53, NodePort: 30053}},
	}
	r.want(inProgress)(r.ensure(network, node("node-1", first)))
	r.want(absent)(r.remove(network))
	cloud.Change(func(c *fakecloud.Cloud) { c.Tokens = []string{"second"} })
	r.wantReason(r.lookupError(node("node-1", first)), provider.CredentialsInvalid)
	r.writeToken("second")
	cloud.RequestsPerHour = 1
	if pause := r.wantReason(r.lookupError(node("node-1", first)), provider.RateLimited); pause < time.Minute {
		t.Errorf("the pause is %v", pause)
	}
}

// prism starts the proxy before upstream, and returns its URL.
func prism(t *testing.T, description, upstream string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()
	command := []string{"npx", "--yes", "--package", prismPackage, "prism"}
	if got, err := exec.LookPath("prism"); err == nil {
		command = []string{got}
	}
	command = append(command, "proxy", "--errors", "--host", "127.0.0.1", "--port", fmt.Sprint(address.Port),
		description, upstream)
	proxy := exec.Command(command[0], command[1:]...)
	proxy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // npx has a child
	log := &lockedBuffer{}
	proxy.Stdout, proxy.Stderr = log, log
	if err := proxy.Start(); err != nil {
		t.Fatalf("%s needs Node.js with npx: %v", prismPackage, err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-proxy.Process.Pid, syscall.SIGKILL)
		_ = proxy.Wait()
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "iolation") {
				t.Errorf("Prism: %s", strings.TrimSpace(line))
			}
		}
		if t.Failed() {
			t.Logf("Prism's log: %s", log.String())
		}
	})
	for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(log.String(), "Prism is listening"); {
		if time.Now().After(deadline) {
			t.Fatalf("Prism does not listen: %s", log.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", address.Port)
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(bytes []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(bytes)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
