//! Requests that no generated client sends: other methods, other fields, other sizes.

use futures::stream;
use outrigger_api::{Method, Streams, v1::ListRoutesRequest};
use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType, skip_field},
};

use super::Client;
use crate::call_error::CallError;

/// A message that is sent as these bytes. A received one is dropped.
#[derive(Debug, Default)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, into: &mut impl BufMut) {
        into.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        number: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, number, from, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Client {
    /// Sends an encoded message to a method, which need not be one of the contract.
    pub async fn send_bytes(&self, method: &Method, message: Vec<u8>) -> Result<(), CallError> {
        let request = stream::iter([Raw(message)]);
        let answer = self.exchange::<_, Raw>(method, method.deadline, request);
        answer.await.map(drop)
    }

    /// Calls a method with its context alone, so that it cannot change the cloud: without a key and without items.
    pub async fn probe(&self, method: &Method) -> Result<(), CallError> {
        let context = Some(self.context());
        // The context has the same number in each request that has one.
        let request = Raw(ListRoutesRequest { context }.encode_to_vec());
        let request = (method.streams != Streams::Request).then_some(request);
        let answer = self.exchange::<_, Raw>(method, method.deadline, stream::iter(request));
        answer.await.map(drop)
    }
}
