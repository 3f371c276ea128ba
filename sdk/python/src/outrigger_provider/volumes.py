"""Looks up volumes: the methods that an author writes, and how VolumesService calls them."""

from collections.abc import Awaitable, Mapping, Sequence

from . import v1
from .call import Call, implements
from .each import each
from .results import Results, VolumeLookup


class Volumes:
    """Labels and node affinity of volumes that no provisioner made. The author writes get_volume, or get_volumes where
    one call of the cloud answers many. Nothing here changes the cloud."""

    capability = v1.VolumesCapability()
    # How many get_volume run at a time for one batch.
    concurrency = 8

    def get_volume(self, call: Call, volume: v1.Volume) -> VolumeLookup | Awaitable[VolumeLookup]:
        """Where a volume can be used. A handle that no volume of this cloud could have is MALFORMED_VOLUME_HANDLE."""
        raise NotImplementedError

    def get_volumes(
        self, call: Call, volumes: Sequence[v1.Volume]
    ) -> Mapping[str, VolumeLookup] | Awaitable[Mapping[str, VolumeLookup]]:
        """The outcome of each volume by its key. An error of the whole call is that of each."""
        raise NotImplementedError


class VolumesRpc:
    """Serves VolumesService."""

    def __init__(self, volumes: Volumes) -> None:
        self.volumes = volumes

    async def BatchGetVolumes(self, call: Call, request: v1.BatchGetVolumesRequest) -> v1.BatchGetVolumesResponse:
        """Answers each item."""
        results = Results(call, v1.BatchGetVolumesResponse, type(self.volumes).__name__)
        if implements(self.volumes, Volumes, "get_volumes"):
            outcomes = await call.invoke(self.volumes.get_volumes, list(request.items))
        else:
            outcomes = await each(call, request.items, self.volumes.get_volume, concurrency=self.volumes.concurrency)
        response: v1.BatchGetVolumesResponse = results.respond(request.items, outcomes)
        return response
