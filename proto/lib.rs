//! The contract between Outrigger's controller and a cloud provider.
//!
//! The `.proto` files beside this one are the contract; the types here are generated from them and
//! carry their comments. The controller is the only caller, the provider the only server.

/// `cloudprovider.v1`: messages, clients and servers, as documented in `cloudprovider/v1/*.proto`.
pub mod v1 {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    tonic::include_proto!("cloudprovider.v1");
}

/// The minor revision of `cloudprovider.v1` that this crate was generated from.
pub const MINOR: u32 = 1;

/// `google.rpc.ErrorInfo.domain` of every deliberate error.
pub const ERROR_DOMAIN: &str = "cloudprovider.v1";

/// Largest message that a peer accepts which named no limit at handshake, in bytes.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Environment variable that names the endpoint, on both sides.
pub const ENDPOINT_ENV: &str = "CLOUDPROVIDER_ENDPOINT";

/// Where the socket is unless [`ENDPOINT_ENV`] or a flag says otherwise.
pub const DEFAULT_ENDPOINT: &str = "unix:///run/outrigger/provider.sock";

/// The compiled contract as an encoded `google.protobuf.FileDescriptorSet`, for reflection and for
/// tools that speak it without generated code.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The messages of the contract, and of what it uses, with the memory that each takes when it is decoded: for a reader
/// that does not trust the sender, since an entry of two bytes may become one of some hundred.
pub const MESSAGE_SHAPES: &[MessageShape] = include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// A message of [`MESSAGE_SHAPES`].
#[derive(Clone, Copy, Debug)]
pub struct MessageShape {
    /// With its package: `cloudprovider.v1.Instance`.
    pub name: &'static str,
    /// Bytes of its Rust type at most, without what its texts, lists and maps have on the heap.
    pub size: usize,
    /// Its fields.
    pub fields: &'static [FieldShape],
}

/// A field of a [`MessageShape`].
#[derive(Clone, Copy, Debug)]
pub struct FieldShape {
    /// On the wire.
    pub number: u32,
    /// In the contract.
    pub name: &'static str,
    /// Whether it may come more than once, as an entry of a map does.
    pub is_repeated: bool,
    /// The kind of its values.
    pub kind: FieldKind,
}

/// The kind of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number, a boolean or an enum.
    Number,
    /// A string, or bytes.
    Text,
    /// The message at this place in [`MESSAGE_SHAPES`].
    Message(usize),
}

/// One `google.rpc.Status`, the error of a single item in a batch.
pub use tonic_types::Status as RpcStatus;

/// The gRPC code under which the contract lists a reason, as in `reasons.txt`.
pub const fn code_of(reason: v1::ErrorReason) -> tonic::Code {
    use tonic::Code;
    use v1::ErrorReason as R;
    match reason {
        R::Unspecified => Code::Unknown,
        R::InvalidRequest
        | R::InvalidAnnotation
        | R::UnsupportedProtocol
        | R::MalformedProviderId
        | R::UnsupportedFeature
        | R::MalformedVolumeHandle => Code::InvalidArgument,
        R::DependencyNotReady
        | R::ConflictingResource
        | R::NodeSetUnknown
        | R::NodeSetBaseMismatch
        | R::NotHandshaked
        | R::VersionUnsupported => Code::FailedPrecondition,
        R::OperationInProgress | R::Conflict => Code::Aborted,
        R::RateLimited | R::QuotaExceeded | R::Overloaded => Code::ResourceExhausted,
        R::CredentialsInvalid => Code::Unauthenticated,
        R::PermissionMissing => Code::PermissionDenied,
        R::CloudUnavailable | R::ShuttingDown => Code::Unavailable,
        R::CapabilityDisabled => Code::Unimplemented,
        R::CloudError => Code::Internal,
    }
}

/// The name of a gRPC code in the contract: `RESOURCE_EXHAUSTED`.
pub const fn code_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
