"""Methods that change a cloud, and codes of reasons.

This file is made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api.
"""

from grpc import StatusCode

# The methods that make, change or delete something in the cloud, by the name that gRPC has for them.
CHANGES = {
    "/cloudprovider.v1.LoadBalancersService/EnsureLoadBalancer",
    "/cloudprovider.v1.LoadBalancersService/UpdateLoadBalancerNodes",
    "/cloudprovider.v1.LoadBalancersService/DeleteLoadBalancer",
    "/cloudprovider.v1.RoutesService/BatchCreateRoutes",
    "/cloudprovider.v1.RoutesService/BatchDeleteRoutes",
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
