"""Looks up volumes: the methods that an author writes, and how VolumesService calls them."""

from collections.abc import Awaitable

from . import v1
from .call import Call
from .outcomes import Outcome


class Volumes:
    """Labels and node affinity of volumes that no provisioner made. Nothing here changes the cloud. For a cloud that
    answers many by one call there is Batcher."""

    capability = v1.VolumesCapability()

    def get_volume(
        self, call: Call, volume: v1.Volume
    ) -> Outcome[v1.VolumeTopology] | Awaitable[Outcome[v1.VolumeTopology]]:
        """Where a volume can be used. A handle that no volume of this cloud could have is MALFORMED_VOLUME_HANDLE."""
        raise NotImplementedError


class VolumesRpc:
    """Serves VolumesService."""

    def __init__(self, volumes: Volumes) -> None:
        self.volumes = volumes

    async def GetVolume(self, call: Call, request: v1.GetVolumeRequest) -> v1.GetVolumeResponse:
        """Looks up."""
        outcome = await call.invoke(self.volumes.get_volume, request.volume)
        if isinstance(outcome, v1.Absent):
            return v1.GetVolumeResponse(absent=outcome)
        if isinstance(outcome, v1.NotManaged):
            return v1.GetVolumeResponse(not_managed=outcome)
        return v1.GetVolumeResponse(found=outcome)
