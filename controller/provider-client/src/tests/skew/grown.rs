//! Messages as a later minor would send them: with a field more in each, however deep.

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, int32,
    skip_field, string,
};
use tonic::body::Body;

/// The response with fields more in each of its messages.
pub(super) fn grown(response: http::Response<Body>) -> http::Response<Body> {
    response.map(|body| Body::new(body.map_frame(|frame| frame.map_data(grow_frame))))
}

/// Messages of gRPC: a flag, a length, and the message.
fn grow_frame(mut data: Bytes) -> Bytes {
    let mut out = BytesMut::new();
    while data.has_remaining() {
        let flag = data.split_to(1);
        let length = data.get_u32() as usize;
        let message = grow(&data.split_to(length)).expect("a message");
        out.extend_from_slice(&flag);
        out.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&message);
    }
    out.freeze()
}

/// The message with fields that none has in the contract, in itself and in all that it contains. `None` for bytes
/// that are no message, as texts are.
fn grow(mut message: &[u8]) -> Option<Vec<u8>> {
    let is_text = !message.is_empty() && message.iter().all(|byte| (b' '..=b'~').contains(byte));
    if is_text {
        return None;
    }
    let mut out = Vec::new();
    while message.has_remaining() {
        let whole = message;
        let (number, wire_type) = decode_key(&mut message).ok()?;
        if wire_type == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
            let inner = message.split_off(..length)?;
            let inner = grow(inner).unwrap_or_else(|| inner.to_vec());
            encode_key(number, wire_type, &mut out);
            encode_varint(inner.len() as u64, &mut out);
            out.extend_from_slice(&inner);
        } else {
            skip_field(wire_type, number, &mut message, DecodeContext::default()).ok()?;
            out.extend_from_slice(&whole[..whole.len() - message.len()]);
        }
    }
    int32::encode(1000, &99, &mut out);
    string::encode(1001, &"later".to_owned(), &mut out);
    Some(out)
}
