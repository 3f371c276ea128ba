// Package fakecloud is a stateful fake of DigitalOcean's API in memory: its shapes are those of the
// vendor's description, and it does what a shape does not say: load balancers that take a while to become
// active, lists that lag, rate limits, lost answers, tokens that are refused.
package fakecloud

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Cloud is one team's resources. The exported fields are set before it serves, or with Change.
type Cloud struct {
	// Provisioning is how long a load balancer is new.
	Provisioning time.Duration
	// ListLag is how long a load balancer is missing from lists after its creation.
	ListLag time.Duration
	// MaxPage lowers the largest page; 0: 200 as the API.
	MaxPage int
	// MaxLoadBalancers of the team; 0: no limit.
	MaxLoadBalancers int
	// RequestsPerHour of the rate limit; 0: 5,000.
	RequestsPerHour int
	// Tokens that are taken.
	Tokens []string
	// Certificates by id, with their names.
	Certificates map[string]string
	// Refusal is how every request is answered.
	Refusal Refusal

	mu        sync.Mutex
	now       time.Time
	frozen    bool
	droplets  []*Droplet
	balancers []*balancer
	tags      map[string]struct{}
	spent     int
	next      int
	faults    []*Fault
	refused   *sync.Cond // signals another refusal
	changes   int
	requests  int
	calls     []string
}

// Droplet is a machine.
type Droplet struct {
	ID      int
	Name    string
	Status  string
	Private string
	Public  string
	IPv6    string
}

// Fault changes the answers to requests that it fits.
type Fault struct {
	// Method and Path (a prefix below /v2/) of the requests; empty: any.
	Method, Path string
	// Times it happens; it is used up then.
	Times int
	// Status and Message of the answer; 0: the request is carried out and its answer is lost.
	Status  int
	Message string
	// RetryAfter in seconds, as a header; 0: none.
	RetryAfter int
}

type balancer struct {
	id, status string
	created    time.Time
	tags       []string
	fields     map[string]any
}

// New returns a cloud that takes these tokens.
func New(tokens ...string) *Cloud {
	cloud := &Cloud{Tokens: tokens, Certificates: map[string]string{}, tags: map[string]struct{}{}, next: 1000}
	cloud.refused = sync.NewCond(&cloud.mu)
	return cloud
}

// Change changes the exported fields of a cloud that serves.
func (c *Cloud) Change(change func(*Cloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
	c.refused.Broadcast()
}

// Freeze stops the clock of the cloud; Advance alone moves it then.
func (c *Cloud) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.frozen = time.Now(), true
}

// Advance moves a frozen clock.
func (c *Cloud) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// Refusal is a way to answer every request.
type Refusal int

const (
	// RefuseNothing carries requests out.
	RefuseNothing Refusal = iota
	// RefuseAsDown answers with 503.
	RefuseAsDown
	// AnswerNothing lets requests wait until another one is set.
	AnswerNothing
	// RefuseAsTooMany answers as the rate limit does, with one second to wait.
	RefuseAsTooMany
	// RefuseTokens takes no token.
	RefuseTokens
)

// Requests is how many there were.
func (c *Cloud) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Changes is how many requests have asked for a change of load balancers.
func (c *Cloud) Changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Break adds a fault.
func (c *Cloud) Break(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &fault)
}

// AddDroplet adds one of this name, which is active and has an address of each kind, and returns its id.
func (c *Cloud) AddDroplet(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	low := c.next % 250
	c.droplets = append(c.droplets, &Droplet{
		ID: c.next, Name: name, Status: "active", Private: fmt.Sprintf("10.110.%d.%d", c.next/250, low+2),
		Public: fmt.Sprintf("203.0.113.%d", low+2), IPv6: fmt.Sprintf("2001:db8::%x", c.next),
	})
	return c.next
}

// ChangeDroplet changes one that is there.
func (c *Cloud) ChangeDroplet(id int, change func(*Droplet)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, droplet := range c.droplets {
		if droplet.ID == id {
			change(droplet)
		}
	}
}

// RemoveDroplet destroys one.
func (c *Cloud) RemoveDroplet(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.droplets = slices.DeleteFunc(c.droplets, func(droplet *Droplet) bool { return droplet.ID == id })
}

// AddLoadBalancer adds one that is active, made by other means, and returns its id.
func (c *Cloud) AddLoadBalancer(name string, tags ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	balancer := &balancer{id: c.uuid(), tags: tags, created: c.clock().Add(-time.Hour), fields: map[string]any{
		"name": name, "forwarding_rules": []any{map[string]any{
			"entry_protocol": "tcp", "entry_port": 1.0, "target_protocol": "tcp", "target_port": 1.0,
		}}, "type": "REGIONAL_NETWORK", "region": "nyc3", "droplet_ids": []any{},
	}}
	c.balancers = append(c.balancers, balancer)
	return balancer.id
}

// ChangeLoadBalancer changes a field of the only one of this name behind the provider's back.
func (c *Cloud) ChangeLoadBalancer(name, field string, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, balancer := range c.balancers {
		if balancer.fields["name"] == name {
			balancer.fields[field] = value
			if field == "status" {
				balancer.status = value.(string)
			}
		}
	}
}

// LoadBalancers are all that are there, as the API shows them.
func (c *Cloud) LoadBalancers() []map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := make([]map[string]any, 0, len(c.balancers))
	for _, balancer := range c.balancers {
		shown = append(shown, c.showBalancer(balancer))
	}
	return shown
}

// Tags that are there.
func (c *Cloud) Tags() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.tags {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TakeCalls returns the requests since the last TakeCalls, as "GET droplets".
func (c *Cloud) TakeCalls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *Cloud) clock() time.Time {
	if c.frozen {
		return c.now
	}
	return time.Now()
}

func (c *Cloud) uuid() string {
	c.next++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", c.next)
}
