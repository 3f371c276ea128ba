// This file shows a Service whose load balancer is left alone.

package loadbalancers_test

import (
	"context"
	"fmt"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/providers/digitalocean/internal/loadbalancers"
)

// Example leaves the load balancer of a Service alone that has the annotation for it.
func Example() {
	service := &v1.Service{Uid: "1", Annotations: map[string]string{loadbalancers.DisownAnnotation: "true"}}
	answer, err := (&loadbalancers.LoadBalancers{}).DeleteLoadBalancer(context.Background(), service)
	fmt.Println(answer.GetDisposition(), err)
	// Output: LOAD_BALANCER_DISPOSITION_RETAINED <nil>
}
