//! Requests that no generated client sends: other methods, other fields, other sizes.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::bytes::{Buf as _, BufMut as _};
use tonic::{
    Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::{CallError, Client};

/// Bytes on both sides.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

impl Client {
    /// Sends an encoded message to any path, such as `/cloudprovider.v1.ProviderService/GetStatus`.
    pub async fn send_bytes(
        &self,
        rpc: &'static str,
        path: &'static str,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        let deadline = Duration::from_secs(30);
        self.unary(rpc, deadline, message, |channel, request| async move {
            let mut grpc = Grpc::new(channel);
            grpc.ready()
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            grpc.unary(request, PathAndQuery::from_static(path), Bytes)
                .await
        })
        .await
    }
}
