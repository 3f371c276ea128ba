"""ProviderService: the handshake and the status. Neither call reaches the cloud."""

import uuid
from importlib.metadata import version

from cloudprovider.v1 import provider_pb2 as pb
from cloudprovider.v1.provider_pb2_grpc import ProviderServiceServicer

from .calls import Context, Gate
from .errors import Refusal
from .instances import MOST_NODES, SCHEME
from .load_balancers import MOST_SERVICES

MINOR = 1
MAX_RECEIVE_BYTES = 16 << 20


class Provider(ProviderServiceServicer):
    """Answers the handshake, which opens the gate for its cluster."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.boot_id = str(uuid.uuid4())

    async def Handshake(self, request: pb.HandshakeRequest, context: Context) -> pb.HandshakeResponse:
        if not request.min_minor <= MINOR <= request.max_minor:
            text = f"minor {MINOR} is spoken here, {request.min_minor} to {request.max_minor} are asked for"
            raise Refusal("VERSION_UNSUPPORTED", text)
        self.gate.cluster_name = request.cluster.name
        return pb.HandshakeResponse(
            minor=MINOR,
            provider_name=SCHEME.removesuffix("://"),
            provider_version=version("outrigger-example-provider"),
            boot_id=self.boot_id,
            capabilities=pb.Capabilities(
                instances=pb.InstancesCapability(max_batch_size=MOST_NODES, list=True),
                # Volatile: this cloud is lost with the process.
                load_balancers=pb.LoadBalancersCapability(volatile=True, max_services_per_update=MOST_SERVICES),
                node_sets=pb.NodeSetsCapability(),
            ),
            # This provider reads no annotation. An empty list would mean all, and each change of one would be a call.
            service_annotation_prefixes=["example.outrigger.dev/"],
            max_receive_message_bytes=MAX_RECEIVE_BYTES,
        )

    async def GetStatus(self, request: pb.GetStatusRequest, context: Context) -> pb.GetStatusResponse:
        return pb.GetStatusResponse(readiness=pb.READINESS_READY, boot_id=self.boot_id)
