//! The contract between Outrigger's controller and a cloud provider.
//!
//! The `.proto` files beside this one are the contract; the types here are generated from them and
//! carry their comments. The controller is the only caller, the provider the only server.

use std::time::Duration;

use prost::Message;

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

/// Largest message that the controller accepts, in bytes, which it names at handshake.
pub const CONTROLLER_MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Environment variable that names the endpoint, on both sides.
pub const ENDPOINT_ENV: &str = "CLOUDPROVIDER_ENDPOINT";

/// Where the socket is unless [`ENDPOINT_ENV`] or a flag says otherwise.
pub const DEFAULT_ENDPOINT: &str = "unix:///run/outrigger/provider.sock";

/// The compiled contract as an encoded `google.protobuf.FileDescriptorSet`, for reflection and for
/// tools that speak it without generated code.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// A method of the contract, as its options say.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// `InstancesService`.
    pub service: &'static str,
    /// `BatchGetInstances`.
    pub name: &'static str,
    /// `/cloudprovider.v1.InstancesService/BatchGetInstances`.
    pub path: &'static str,
    /// Name of its response message, of each one where it streams responses.
    pub response: &'static str,
    /// After it the caller takes the outcome as unknown.
    pub deadline: Duration,
    /// The longest time until the first response of a stream, and between two.
    pub max_silence: Option<Duration>,
    /// True if it makes, changes or deletes something in the cloud.
    pub changes_cloud: bool,
    /// The class that it is limited and paused with; [`v1::CallClass::Unspecified`]: with none.
    pub class: v1::CallClass,
    /// The field of the handshake that declares it: `Capabilities.instances`, `InstancesCapability.list`. Empty: each
    /// provider serves it.
    pub declared_by: &'static str,
    /// True if it is declared with these capabilities.
    pub is_declared: fn(&v1::Capabilities) -> bool,
    /// Which side sends more than one message.
    pub streams: Streams,
}

impl Method {
    /// Returns whether a provider that declares the service may leave it out.
    pub fn is_optional(&self) -> bool {
        !self.declared_by.is_empty() && !self.declared_by.starts_with("Capabilities.")
    }
}

/// Which side of a call sends more than one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// One request, one response.
    Neither,
    /// The caller.
    Request,
    /// The provider.
    Response,
}

/// The request of a method, the first message where the caller streams.
pub trait MethodRequest: Message + Default + Send + 'static {
    /// Its response, each one where the provider streams.
    type Response: Message + Default + Send + 'static;

    /// The method.
    const METHOD: &'static Method;

    /// Its field `context`, if it has one.
    fn context_mut(&mut self) -> Option<&mut Option<v1::CallContext>>;
}

/// A message of a streamed list.
pub trait ListPage: Message + Default + Send + 'static {
    /// An entry of the list.
    type Item: Message + Default + Clone + Send + 'static;

    /// A message with these entries, the last one if `complete`.
    fn page(items: Vec<Self::Item>, complete: bool) -> Self;

    /// Its entries, and whether it is the last one.
    fn into_parts(self) -> (Vec<Self::Item>, bool);
}

/// The methods of the contract, and which messages are theirs.
mod methods {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    use super::{Duration, ListPage, Method, MethodRequest, Streams, v1};
    include!(concat!(env!("OUT_DIR"), "/methods.rs"));
}

/// The methods of the contract, those of one service together, in the order of its files.
pub const METHODS: &[Method] = methods::METHODS;

impl v1::InstanceResult {
    /// The answer about the Node of this name.
    pub fn new(key: String, outcome: v1::instance_result::Outcome) -> Self {
        Self {
            key,
            outcome: Some(outcome),
            effects: None,
        }
    }

    /// The error, if that is its outcome.
    pub const fn error(&self) -> Option<&RpcStatus> {
        match &self.outcome {
            Some(v1::instance_result::Outcome::Error(error)) => Some(error),
            _ => None,
        }
    }
}

/// One `google.rpc.Status`, the error of a single Node in a batch.
pub use tonic_types::Status as RpcStatus;

/// The gRPC code that goes with a reason: its option `grpc_code`.
#[allow(
    clippy::match_same_arms,
    reason = "the generated match has one arm for each reason"
)]
pub const fn code_of(reason: v1::ErrorReason) -> tonic::Code {
    include!(concat!(env!("OUT_DIR"), "/reasons.rs"))
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
