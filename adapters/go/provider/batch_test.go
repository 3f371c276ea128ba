// These tests encode results of batches, also those whose effects do not fit into a message.

package provider

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

func TestAResultIsWrittenIntoTheMessageOfEachBatch(t *testing.T) {
	effects := &v1.KubernetesEffects{RemoveAnnotations: []string{"a"}}
	failure := Errorf(CloudError, "no").WithEffects(effects)
	result := &v1.RouteResult{}
	RouteChange{Err: failure}.put(result.ProtoReflect(), "10.0.0.0/24", 0)
	if result.Key != "10.0.0.0/24" || len(result.GetError().GetDetails()) != 1 || !proto.Equal(result.Effects, effects) {
		t.Error(result)
	}
	// Results of volumes have no effects: they are among the details.
	volume := &v1.VolumeResult{}
	VolumeLookup{Err: failure}.put(volume.ProtoReflect(), "v", 0)
	if len(volume.GetError().GetDetails()) != 2 {
		t.Error(volume)
	}
	notVisible := v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
	for age, certainty := range map[time.Duration]v1.AbsenceCertainty{
		time.Second: v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, time.Minute: notVisible,
	} {
		absent := Confirmed(strings.Repeat("x", 2000))
		absent.Age = durationpb.New(age)
		volume := &v1.VolumeResult{}
		VolumeLookup{Absent: absent}.put(volume.ProtoReflect(), "v", 2*time.Second)
		if gone := volume.GetAbsent(); gone.GetCertainty() != certainty || len(gone.GetReason()) > maxMessageBytes {
			t.Error(age, volume)
		}
	}
	unsendable := &v1.InstanceResult{}
	Found(&v1.Instance{ProviderId: "\xff"}).WithEffects(effects).put(unsendable.ProtoReflect(), "n", 0)
	if unsendable.GetError() == nil || unsendable.Effects != nil {
		t.Error(unsendable)
	}
}

func TestOutcomesAreSentThoughEffectsDoNotFit(t *testing.T) {
	answer := func(limit int) (*v1.BatchCreateRoutesResponse, error) {
		result := &v1.RouteResult{}
		made := Found(&v1.Route{Name: "r"}).WithEffects(&v1.KubernetesEffects{RemoveAnnotations: []string{strings.Repeat("x", 1000)}})
		made.put(result.ProtoReflect(), "10.0.0.0/24", 0)
		response := &v1.BatchCreateRoutesResponse{Results: []*v1.RouteResult{result}}
		fields := response.ProtoReflect()
		results := fields.Mutable(fields.Descriptor().Fields().ByName("results")).List()
		return response, fit(WithCall(context.Background(), Call{maxSendBytes: limit}), response, results)
	}
	if response, err := answer(2000); err != nil || response.Results[0].Effects == nil {
		t.Error(response, err)
	}
	if response, err := answer(500); err != nil || response.Results[0].Effects != nil || response.Results[0].GetFound().GetName() != "r" {
		t.Error(response, err)
	}
	if _, err := answer(10); err == nil || errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "max_batch_size") {
		t.Error(err)
	}
}
