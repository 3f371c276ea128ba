// This file has the interface about volumes, and serves VolumesService with it.

package provider

import (
	"context"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Volumes looks up volumes: labels and node affinity of those that no provisioner made. Nothing here
// changes the cloud, and ctx ends with its caller.
type Volumes interface {
	// GetVolumes looks up 1 to VolumesCapability.max_batch_size volumes with distinct keys. An error of
	// the whole call is that of each volume. Each asks about them one by one.
	//
	// A volume that is not there is absent as Confirmed says, one that may not be visible yet is absent with that
	// certainty; a handle that no volume of this cloud could have is MalformedVolumeHandle.
	GetVolumes(ctx context.Context, volumes []*v1.Volume) (VolumeLookups, error)
}

// VolumeLookup is the answer about one volume; found says where it can be used.
type VolumeLookup = Result[*v1.VolumeTopology]

// VolumeLookups are the results of a batch by Volume.key.
type VolumeLookups = Results[*v1.VolumeTopology]

type volumesRPC struct {
	v1.UnimplementedVolumesServiceServer
	core    *core
	volumes Volumes
}

func (s *volumesRPC) BatchGetVolumes(ctx context.Context, request *v1.BatchGetVolumesRequest) (*v1.BatchGetVolumesResponse, error) {
	return batch[v1.BatchGetVolumesResponse](s.core, ctx, request, func(ctx context.Context) (VolumeLookups, error) {
		return s.volumes.GetVolumes(ctx, request.Items)
	})
}
