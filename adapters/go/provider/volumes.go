// This file has the interface about volumes, and serves VolumesService with it.

package provider

import (
	"context"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Volumes looks up volumes: labels and node affinity of those that no provisioner made. Nothing here
// changes the cloud, and ctx ends with its caller.
type Volumes interface {
	// GetVolume looks up one volume. Answers: found, absent, not managed. A handle that no volume of this cloud could
	// have is MalformedVolumeHandle.
	GetVolume(ctx context.Context, volume *v1.Volume) (*v1.GetVolumeResponse, error)
}

// VolumeFound says where the volume can be used.
func VolumeFound(topology *v1.VolumeTopology) *v1.GetVolumeResponse {
	return &v1.GetVolumeResponse{Outcome: &v1.GetVolumeResponse_Found{Found: topology}}
}

// VolumeAbsent says that there is no such volume, with the certainty of Confirmed, or that it may not be visible yet.
func VolumeAbsent(absent *v1.Absent) *v1.GetVolumeResponse {
	return &v1.GetVolumeResponse{Outcome: &v1.GetVolumeResponse_Absent{Absent: absent}}
}

// VolumeNotManaged says that another provider, or none, owns the volume; logs have the reason.
func VolumeNotManaged(reason string) *v1.GetVolumeResponse {
	return &v1.GetVolumeResponse{Outcome: &v1.GetVolumeResponse_NotManaged{NotManaged: &v1.NotManaged{Reason: reason}}}
}

type volumesRPC struct {
	v1.UnimplementedVolumesServiceServer
	core    *core
	volumes Volumes
}

func (s *volumesRPC) GetVolume(ctx context.Context, request *v1.GetVolumeRequest) (*v1.GetVolumeResponse, error) {
	return run(s.core, ctx, request, func(ctx context.Context) (*v1.GetVolumeResponse, error) {
		return s.volumes.GetVolume(ctx, request.GetVolume())
	})
}
