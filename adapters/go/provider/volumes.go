package provider

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Volumes looks up volumes: labels and node affinity of those that no provisioner made. Nothing here
// changes the cloud, and ctx ends with its caller.
type Volumes interface {
	// GetVolumes looks up 1 to VolumesCapability.max_batch_size volumes with distinct keys. An error of
	// the whole is that of each. LookupVolumes asks about them one by one.
	//
	// A handle that no volume of this cloud could have is MalformedVolumeHandle; a volume that may not
	// be visible yet, DependencyNotReady.
	GetVolumes(ctx context.Context, volumes []*v1.Volume) (VolumeLookups, error)
}

// VolumeLookups are the results of a batch by Volume.key.
type VolumeLookups map[string]VolumeLookup

// VolumeLookup is the answer about one volume: exactly one field is set.
type VolumeLookup struct {
	// Found says where it can be used.
	Found *v1.VolumeTopology
	// Absent says that the provider looked and there is none: why, for people.
	Absent string
	// NotManaged says that it is another provider's: why, for logs.
	NotManaged string
	// Err is the error of this one lookup.
	Err error
}

// LookupVolumes looks up each volume by itself, at most concurrency at a time, as LookupEach does nodes.
func LookupVolumes(ctx context.Context, concurrency int, volumes []*v1.Volume,
	lookup func(ctx context.Context, volume *v1.Volume) (VolumeLookup, error),
) (VolumeLookups, error) {
	return lookupEach(ctx, concurrency, volumes, (*v1.Volume).GetKey, lookup, func(err error) VolumeLookup { return VolumeLookup{Err: err} })
}

// volumesRPC checks requests before, and completes results after a vendor's handler.
type volumesRPC struct {
	v1.UnimplementedVolumesServiceServer
	core     *core
	volumes  Volumes
	maxBatch int
}

func (s *volumesRPC) BatchGetVolumes(ctx context.Context, request *v1.BatchGetVolumesRequest) (*v1.BatchGetVolumesResponse, error) {
	call, err := s.core.admit(ctx, "BatchGetVolumes", reads, request.Context)
	if err != nil {
		return nil, err
	}
	if err := checkVolumes(request.Volumes, s.maxBatch); err != nil {
		return nil, err
	}
	return run(call, ctx, func(ctx context.Context) (*v1.BatchGetVolumesResponse, error) {
		found, err := s.volumes.GetVolumes(ctx, request.Volumes)
		if err != nil {
			return nil, err
		}
		response := &v1.BatchGetVolumesResponse{Results: make([]*v1.VolumeResult, 0, len(request.Volumes))}
		for _, volume := range request.Volumes {
			response.Results = append(response.Results, found[volume.Key].result(volume.Key))
		}
		return within(call.session.maxSendBytes, response, "VolumesCapability.max_batch_size")
	})
}

func checkVolumes(volumes []*v1.Volume, maxBatch int) error {
	if len(volumes) < 1 || len(volumes) > maxBatch {
		return Errorf(InvalidRequest, "the request asks about %d volumes; send 1 to %d "+
			"(VolumesCapability.max_batch_size)", len(volumes), maxBatch)
	}
	keys := make(map[string]struct{}, len(volumes))
	for index, volume := range volumes {
		key, wrong := volume.GetKey(), ""
		_, twice := keys[key]
		switch {
		case len(key) < 1 || len(key) > 253:
			wrong = fmt.Sprintf("has a key of %d bytes; send 1 to 253", len(key))
		case twice:
			wrong = fmt.Sprintf("is %q, which the request has asked about already", key)
		case volume.GetSource().GetSource() == nil:
			wrong = "has no source"
		default:
			keys[key] = struct{}{}
			continue
		}
		return Errorf(InvalidRequest, "volumes[%d] %s", index, wrong)
	}
	return nil
}

func (l VolumeLookup) failure() error { return l.Err }

func (l VolumeLookup) result(key string) *v1.VolumeResult {
	sent, err := &v1.VolumeResult{Key: key}, l.Err
	switch {
	case err != nil:
	case l.Found != nil:
		sent.Outcome = &v1.VolumeResult_Found{Found: l.Found}
	case l.Absent != "":
		sent.Outcome = &v1.VolumeResult_Absent{Absent: &v1.VolumeAbsent{Reason: cut(l.Absent, 1024)}}
	case l.NotManaged != "":
		sent.Outcome = &v1.VolumeResult_NotManaged{NotManaged: &v1.VolumeNotManaged{Reason: cut(l.NotManaged, 1024)}}
	default:
		err = errors.New("the provider returned no result for this volume")
	}
	if err == nil {
		if _, unsendable := proto.Marshal(sent); unsendable != nil {
			err = fmt.Errorf("the volume's topology cannot be sent: %w", unsendable)
		}
	}
	if err != nil {
		sent.Outcome = &v1.VolumeResult_Error{Error: wholeStatus(err)}
	}
	return sent
}
