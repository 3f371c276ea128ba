// These tests count the requests that lookups of instances make.

package main

import (
	"context"
	"fmt"
	"sync"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"
)

const machines = 1000

// services are AWS's own fakes, with an EC2 that has instances and counts requests.
type services struct {
	*aws.FakeAWSServices
	ec2 *countingEC2
}

func (s services) Compute(context.Context, string, *stscreds.AssumeRoleProvider) (iface.EC2, error) {
	return s.ec2, nil
}

type countingEC2 struct {
	iface.EC2
	mu sync.Mutex
	// requests by operation.
	requests map[string]int
}

func (e *countingEC2) count(operation string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests[operation]++
}

func nameOf(machine int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", machine/250, machine%250)
}

func idOf(machine int) string { return fmt.Sprintf("i-%017x", machine) }

// instance of a machine: the last one is stopped.
func instance(machine int) ec2types.Instance {
	state := ec2types.InstanceStateNameRunning
	if machine == machines-1 {
		state = ec2types.InstanceStateNameStopped
	}
	return ec2types.Instance{
		InstanceId: awssdk.String(idOf(machine)), InstanceType: "m5.large", PrivateDnsName: awssdk.String(nameOf(machine)),
		Placement: &ec2types.Placement{AvailabilityZone: awssdk.String("us-east-1a")},
		State:     &ec2types.InstanceState{Name: state},
		Tags:      []ec2types.Tag{{Key: awssdk.String("kubernetes.io/cluster/test"), Value: awssdk.String("owned")}},
	}
}

func (e *countingEC2) DescribeInstances(_ context.Context, request *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) ([]ec2types.Instance, error) {
	e.count("DescribeInstances")
	requested := map[string]bool{}
	for _, id := range request.InstanceIds {
		requested[id] = true
	}
	for _, filter := range request.Filters {
		if awssdk.ToString(filter.Name) == "private-dns-name" {
			for _, name := range filter.Values {
				requested[name] = true
			}
		}
	}
	var instances []ec2types.Instance
	for machine := range machines {
		if requested[idOf(machine)] || requested[nameOf(machine)] {
			instances = append(instances, instance(machine))
		}
	}
	return instances, nil
}

func (e *countingEC2) DescribeAvailabilityZones(context.Context, *ec2.DescribeAvailabilityZonesInput, ...func(*ec2.Options)) ([]ec2types.AvailabilityZone, error) {
	e.count("DescribeAvailabilityZones")
	return []ec2types.AvailabilityZone{{ZoneName: awssdk.String("us-east-1a"), ZoneId: awssdk.String("use1-az1")}}, nil
}

func (e *countingEC2) DescribeInstanceTopology(context.Context, *ec2.DescribeInstanceTopologyInput, ...func(*ec2.Options)) ([]ec2types.InstanceTopology, error) {
	e.count("DescribeInstanceTopology")
	return nil, nil
}

func newTestCloud(t *testing.T) (*cloud, *countingEC2) {
	t.Helper()
	counting := &countingEC2{requests: map[string]int{}}
	settings := config.CloudConfig{}
	settings.Global.VPC, settings.Global.SubnetID, settings.Global.KubernetesClusterID = "vpc-1", "subnet-1", "test"
	settings.Global.Zone, settings.Global.Region = "us-east-1a", "us-east-1"
	published, err := aws.NewAWSCloud(settings, services{aws.NewFakeAWSServices("test"), counting})
	if err != nil {
		t.Fatal(err)
	}
	return &cloud{Cloud: published, byName: make(chan struct{}, lookupsByName)}, counting
}

func node(machine int, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nameOf(machine)}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func TestLookupsOfABatchAreAFewRequests(t *testing.T) {
	made, counting := newTestCloud(t)
	count := 0
	for _, batch := range []int{0, 500} {
		var nodes []*corev1.Node
		for machine := range 500 {
			nodes = append(nodes, node(batch+machine, "aws:///us-east-1a/"+idOf(batch+machine)))
		}
		results, err := made.InstancesByNode(t.Context(), nodes)
		if err != nil {
			t.Fatal(err)
		}
		for name, result := range results {
			if result.Err != nil || result.Metadata == nil || result.Metadata.Zone != "us-east-1a" || result.Shutdown != (name == nameOf(machines-1)) {
				t.Fatal(name, result)
			}
			count++
		}
	}
	if count != machines || counting.requests["DescribeAvailabilityZones"] != 1 || counting.requests["DescribeInstanceTopology"] != 1 ||
		counting.requests["DescribeInstances"] > 20 {
		t.Error(count, counting.requests)
	}
	t.Log(counting.requests)
}

func TestANodeIsLookedUpByItsNameOrAbsent(t *testing.T) {
	made, counting := newTestCloud(t)
	gone := "aws:///us-east-1a/" + idOf(machines)
	results, err := made.InstancesByNode(t.Context(), []*corev1.Node{
		node(1, ""), node(machines, ""), node(machines+1, gone), node(machines+2, "aws:///us-east-1a/x"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if result := results[nameOf(1)]; result.Metadata == nil || result.Metadata.ProviderID != "aws:///us-east-1a/"+idOf(1) {
		t.Error(result)
	}
	for _, machine := range []int{machines, machines + 1} {
		if result := results[nameOf(machine)]; !result.Absent || result.Err != nil {
			t.Error(machine, result)
		}
	}
	if result := results[nameOf(machines+2)]; result.Err == nil {
		t.Error(result)
	}
	t.Log(counting.requests)
}

func TestAnInstanceHasOneIDHoweverItsNodesSpellIt(t *testing.T) {
	made, _ := newTestCloud(t)
	for _, spelled := range []string{"us-east-1a/" + idOf(1), "x/" + idOf(1), "/" + idOf(1), "x/%69" + idOf(1)[1:], idOf(1) + "?x"} {
		results, err := made.InstancesByNode(t.Context(), []*corev1.Node{node(1, "aws:///"+spelled)})
		if err != nil {
			t.Fatal(err)
		}
		if result := results[nameOf(1)]; result.Metadata == nil || result.Metadata.ProviderID != "aws:///us-east-1a/"+idOf(1) {
			t.Error(spelled, result)
		}
	}
}
