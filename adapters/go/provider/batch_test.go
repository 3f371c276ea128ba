// These tests encode results of batches, also those whose effects do not fit into a message.

package provider

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

func TestAResultIsWrittenIntoTheMessageOfEachBatch(t *testing.T) {
	effects := &v1.KubernetesEffects{RemoveAnnotations: []string{"a"}}
	failure := Errorf(CloudError, "no").WithEffects(effects)
	result := &v1.InstanceResult{}
	Lookup{Err: failure}.put(result.ProtoReflect(), "n", 0)
	if result.Key != "n" || len(result.GetError().GetDetails()) != 1 || !proto.Equal(result.Effects, effects) {
		t.Error(result)
	}
	unsendable := &v1.InstanceResult{}
	Found(&v1.Instance{ProviderId: "\xff"}).WithEffects(effects).put(unsendable.ProtoReflect(), "n", 0)
	if unsendable.GetError() == nil || unsendable.Effects != nil {
		t.Error(unsendable)
	}
}

func TestOutcomesAreSentThoughEffectsDoNotFit(t *testing.T) {
	answer := func(limit int) (*v1.BatchGetInstancesResponse, error) {
		result := &v1.InstanceResult{}
		made := Found(&v1.Instance{ProviderId: "r"}).WithEffects(&v1.KubernetesEffects{RemoveAnnotations: []string{strings.Repeat("x", 1000)}})
		made.put(result.ProtoReflect(), "n", 0)
		response := &v1.BatchGetInstancesResponse{Results: []*v1.InstanceResult{result}}
		fields := response.ProtoReflect()
		results := fields.Mutable(fields.Descriptor().Fields().ByName("results")).List()
		return response, fit(WithCall(context.Background(), Call{maxSendBytes: limit}), response, results)
	}
	if response, err := answer(2000); err != nil || response.Results[0].Effects == nil {
		t.Error(response, err)
	}
	if response, err := answer(500); err != nil || response.Results[0].Effects != nil || response.Results[0].GetFound().GetProviderId() != "r" {
		t.Error(response, err)
	}
	if _, err := answer(10); err == nil || errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "max_batch_size") {
		t.Error(err)
	}
}
