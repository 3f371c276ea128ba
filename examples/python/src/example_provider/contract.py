"""Methods and reasons, made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api."""

from dataclasses import dataclass

from grpc import StatusCode


@dataclass(frozen=True)
class Method:
    """The rules of one method, as options.proto explains them; times are in seconds."""

    service: str
    name: str
    deadline: int
    deadline_per_item: bool = False
    max_silence: int | None = None
    changes_cloud: bool = False
    call_class: str = ""
    item_key: str = ""
    optional: bool = False


# By the name that gRPC has for them.
METHODS = {
    "/cloudprovider.v1.InstancesService/BatchGetInstances": Method(
        "InstancesService",
        "BatchGetInstances",
        deadline=30,
        call_class="CALL_CLASS_INSTANCES",
        item_key="name",
    ),
    "/cloudprovider.v1.InstancesService/ListInstances": Method(
        "InstancesService",
        "ListInstances",
        deadline=300,
        max_silence=60,
        call_class="CALL_CLASS_INSTANCES",
        optional=True,
    ),
    "/cloudprovider.v1.NodeSetsService/SyncNodeSet": Method(
        "NodeSetsService",
        "SyncNodeSet",
        deadline=60,
    ),
    "/cloudprovider.v1.LoadBalancersService/GetLoadBalancer": Method(
        "LoadBalancersService",
        "GetLoadBalancer",
        deadline=120,
        call_class="CALL_CLASS_LOAD_BALANCERS",
    ),
    "/cloudprovider.v1.LoadBalancersService/EnsureLoadBalancer": Method(
        "LoadBalancersService",
        "EnsureLoadBalancer",
        deadline=120,
        changes_cloud=True,
        call_class="CALL_CLASS_LOAD_BALANCERS",
    ),
    "/cloudprovider.v1.LoadBalancersService/UpdateLoadBalancerNodes": Method(
        "LoadBalancersService",
        "UpdateLoadBalancerNodes",
        deadline=120,
        deadline_per_item=True,
        max_silence=120,
        changes_cloud=True,
        call_class="CALL_CLASS_LOAD_BALANCERS",
        item_key="uid",
    ),
    "/cloudprovider.v1.LoadBalancersService/DeleteLoadBalancer": Method(
        "LoadBalancersService",
        "DeleteLoadBalancer",
        deadline=120,
        changes_cloud=True,
        call_class="CALL_CLASS_LOAD_BALANCERS",
    ),
    "/cloudprovider.v1.LoadBalancersService/ListLoadBalancers": Method(
        "LoadBalancersService",
        "ListLoadBalancers",
        deadline=300,
        max_silence=60,
        call_class="CALL_CLASS_LOAD_BALANCERS",
        optional=True,
    ),
    "/cloudprovider.v1.LoadBalancersService/PlanLoadBalancer": Method(
        "LoadBalancersService",
        "PlanLoadBalancer",
        deadline=120,
        call_class="CALL_CLASS_LOAD_BALANCERS",
        optional=True,
    ),
    "/cloudprovider.v1.VolumesService/BatchGetVolumes": Method(
        "VolumesService",
        "BatchGetVolumes",
        deadline=30,
        call_class="CALL_CLASS_VOLUMES",
        item_key="key",
    ),
    "/cloudprovider.v1.ProviderService/Handshake": Method(
        "ProviderService",
        "Handshake",
        deadline=10,
    ),
    "/cloudprovider.v1.ProviderService/GetStatus": Method(
        "ProviderService",
        "GetStatus",
        deadline=5,
    ),
    "/cloudprovider.v1.RoutesService/ListRoutes": Method(
        "RoutesService",
        "ListRoutes",
        deadline=300,
        max_silence=60,
        call_class="CALL_CLASS_ROUTES",
    ),
    "/cloudprovider.v1.RoutesService/BatchCreateRoutes": Method(
        "RoutesService",
        "BatchCreateRoutes",
        deadline=120,
        changes_cloud=True,
        call_class="CALL_CLASS_ROUTES",
        item_key="destination_cidr",
    ),
    "/cloudprovider.v1.RoutesService/BatchDeleteRoutes": Method(
        "RoutesService",
        "BatchDeleteRoutes",
        deadline=120,
        changes_cloud=True,
        call_class="CALL_CLASS_ROUTES",
        item_key="destination_cidr",
    ),
}

# The gRPC code that goes with each reason.
CODES = {
    "INVALID_REQUEST": StatusCode.INVALID_ARGUMENT,
    "INVALID_ANNOTATION": StatusCode.INVALID_ARGUMENT,
    "UNSUPPORTED_PROTOCOL": StatusCode.INVALID_ARGUMENT,
    "MALFORMED_PROVIDER_ID": StatusCode.INVALID_ARGUMENT,
    "UNSUPPORTED_FEATURE": StatusCode.INVALID_ARGUMENT,
    "MALFORMED_VOLUME_HANDLE": StatusCode.INVALID_ARGUMENT,
    "DEPENDENCY_NOT_READY": StatusCode.FAILED_PRECONDITION,
    "CONFLICTING_RESOURCE": StatusCode.FAILED_PRECONDITION,
    "NODE_SET_UNKNOWN": StatusCode.FAILED_PRECONDITION,
    "NODE_SET_BASE_MISMATCH": StatusCode.FAILED_PRECONDITION,
    "NOT_HANDSHAKED": StatusCode.FAILED_PRECONDITION,
    "VERSION_UNSUPPORTED": StatusCode.FAILED_PRECONDITION,
    "OPERATION_IN_PROGRESS": StatusCode.ABORTED,
    "CONFLICT": StatusCode.ABORTED,
    "RATE_LIMITED": StatusCode.RESOURCE_EXHAUSTED,
    "QUOTA_EXCEEDED": StatusCode.RESOURCE_EXHAUSTED,
    "OVERLOADED": StatusCode.RESOURCE_EXHAUSTED,
    "CREDENTIALS_INVALID": StatusCode.UNAUTHENTICATED,
    "PERMISSION_MISSING": StatusCode.PERMISSION_DENIED,
    "CLOUD_UNAVAILABLE": StatusCode.UNAVAILABLE,
    "SHUTTING_DOWN": StatusCode.UNAVAILABLE,
    "CAPABILITY_DISABLED": StatusCode.UNIMPLEMENTED,
    "CLOUD_ERROR": StatusCode.INTERNAL,
}
