"""Serves ProviderService: the handshake and the status, neither of which reaches the cloud."""

import threading
import time
from collections.abc import Callable

from . import v1
from .call import Call
from .contract import MINOR
from .core import Core
from .errors import Error, Reason
from .logs import logger


class ProviderRpc:
    """Says which provider answers, which minor it speaks, and how it is."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def Handshake(self, call: Call, request: v1.HandshakeRequest) -> v1.HandshakeResponse:
        """Opens calls about a cluster."""
        least, most = request.min_minor, request.max_minor
        if least == 0 or most < least:
            text = f"min_minor {least} and max_minor {most} are no range; send 1 <= min_minor <= max_minor"
            raise Error(Reason.INVALID_REQUEST, text)
        if not least <= MINOR <= most:
            text = f"the controller speaks minor {least} to {most} of cloudprovider.v1, this provider {MINOR}"
            raise Error(Reason.VERSION_UNSUPPORTED, f"{text}; upgrade the older of them")
        fields = {"controller_version": request.controller_version, "cluster": request.cluster.name}
        logger.info("handshake", extra=fields)
        self.core.shake_hands(request.cluster, request.max_receive_message_bytes)
        provider = self.core.provider
        return v1.HandshakeResponse(
            minor=MINOR,
            provider_name=provider.name,
            provider_version=provider.version,
            boot_id=self.core.boot_id,
            capabilities=provider.capabilities(),
            without_cluster_id=provider.without_cluster_id,
            service_annotation_prefixes=provider.service_annotation_prefixes,
            node_annotation_prefixes=provider.node_annotation_prefixes,
            max_receive_message_bytes=provider.max_message_bytes,
            rate_limits=provider.rate_limits,
        )

    async def GetStatus(self, call: Call, request: v1.GetStatusRequest) -> v1.GetStatusResponse:
        """The heartbeat."""
        return self.status()

    def status(self) -> v1.GetStatusResponse:
        """The author's status; one that raises is broken."""
        status = v1.GetStatusResponse(readiness=v1.READINESS_READY)
        try:
            if self.core.provider.status:
                status = self.core.provider.status()
        except Exception:
            logger.exception("the provider's status has failed; reported as broken")
            status = v1.GetStatusResponse(readiness=v1.READINESS_BROKEN)
        return v1.GetStatusResponse(
            readiness=status.readiness,
            boot_id=self.core.boot_id,
            dependencies=status.dependencies,
            quotas=status.quotas,
        )

    def is_serving(self) -> bool:
        """Returns the answer of grpc.health.v1."""
        serving = (v1.READINESS_READY, v1.READINESS_DEGRADED)
        return not self.core.is_stopping and self.status().readiness in serving


class Dependencies:
    """Parts that a provider depends on, as its last calls have shown them; `status` can be Provider.status. It is
    never BROKEN: a restart mends neither a cloud nor credentials. Handlers in threads may use it, too."""

    def __init__(self, *names: str, clock: Callable[[], float] = time.time) -> None:
        """Names are short and stable, such as "cloud-api" and "credentials"."""
        self._lock, self._clock = threading.Lock(), clock
        self._statuses = {name: v1.DependencyStatus(name=name, readiness=v1.READINESS_READY) for name in names}

    def works(self, *names: str) -> None:
        """A call has just shown that these work."""
        with self._lock:
            for name in names:
                status = self._statuses[name]
                status.readiness, status.message = v1.READINESS_READY, ""
                status.last_success.FromNanoseconds(int(self._clock() * 1e9))

    def fails(self, name: str, why: str) -> None:
        """A call has just failed. Operators read the text, so it must contain no secrets."""
        with self._lock:
            self._statuses[name].readiness = v1.READINESS_DEGRADED
            self._statuses[name].message = why

    def status(self) -> v1.GetStatusResponse:
        """READY, or DEGRADED while one of them fails."""
        with self._lock:
            fail = any(each.readiness != v1.READINESS_READY for each in self._statuses.values())
            readiness = v1.READINESS_DEGRADED if fail else v1.READINESS_READY
            return v1.GetStatusResponse(readiness=readiness, dependencies=self._statuses.values())
