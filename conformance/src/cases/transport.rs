//! The socket, HTTP/2, messages and methods.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use futures::future::try_join_all;
use outrigger_api::{
    DEFAULT_MAX_MESSAGE_BYTES, Method, MethodRequest, code_name,
    v1::{BatchGetInstancesRequest, GetStatusRequest, HandshakeRequest},
};
use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use tonic::{
    Code,
    metadata::{MetadataMap, MetadataValue},
};

use crate::{
    capability::Capability,
    case::{Check, check},
    inputs::limit,
    subject::Subject,
    verdict::{Required as _, Verdict, expect, failed},
};

const GET_STATUS: &Method = GetStatusRequest::METHOD;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("TRN-01", async |subject| mode(subject)),
        check("TRN-02", authorities),
        check("TRN-04", two_connections),
        check("TRN-05", many_at_once),
        check("TRN-06", largest_message),
        check("TRN-07", too_large_message),
        check("TRN-08", unknown_field),
        check("TRN-09", unimplemented),
        check("TRN-11", idle),
        check("TRN-12", cancelled),
        check("TRN-13", unknown_metadata),
    ]
}

fn mode(subject: &Subject) -> Verdict {
    let path = subject.endpoint().path();
    let metadata = std::fs::metadata(path).required(format!("{} is a socket", path.display()))?;
    let mode = metadata.permissions().mode() & 0o777;
    expect(
        mode == 0o660,
        format!("{} has mode 0660", path.display()),
        format!("mode {mode:04o}"),
    )
}

async fn authorities(subject: &Subject) -> Verdict {
    for authority in ["localhost", "provider.example:443", "[::1]", "a"] {
        let client = subject.dial_to(authority).await?;
        let answered = client.call(GetStatusRequest {}).await;
        answered.required(format!(
            "GetStatus with the authority {authority:?} is answered"
        ))?;
    }
    Ok(())
}

async fn two_connections(subject: &Subject) -> Verdict {
    let new = subject.connect().await?;
    for one in [subject, &new, subject] {
        one.client.call(GetStatusRequest {}).await?;
    }
    Ok(())
}

async fn many_at_once(subject: &Subject) -> Verdict {
    let calls = (0..60).map(|_| subject.client.call(GetStatusRequest {}));
    try_join_all(calls).await?;
    Ok(())
}

/// Bytes of a field with a number that no message of the contract has.
fn padding(bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes);
    encode_key(1000, WireType::LengthDelimited, &mut message);
    // Key and length take seven bytes at most.
    let content = bytes.saturating_sub(message.len() + 4);
    encode_varint(content as u64, &mut message);
    message.resize(message.len() + content, b'x');
    message
}

fn limit_of(subject: &Subject) -> usize {
    match subject.handshake().max_receive_message_bytes {
        0 => DEFAULT_MAX_MESSAGE_BYTES,
        named => usize::try_from(named).unwrap_or(usize::MAX),
    }
}

/// A smaller limit breaks the contract, which is another case.
const SMALLEST: usize = 64 << 10;

/// More is not sent: the suite would need the memory too.
const MOST: usize = 16 << 20;

async fn largest_message(subject: &Subject) -> Verdict {
    let bytes = limit_of(subject).clamp(SMALLEST, MOST) - 8;
    let answered = subject.client.send_bytes(GET_STATUS, padding(bytes)).await;
    answered.required(format!("a request of {bytes} bytes is answered"))?;
    Ok(())
}

async fn too_large_message(subject: &Subject) -> Verdict {
    let limit = limit_of(subject);
    if !(SMALLEST..=MOST).contains(&limit) {
        return Ok(());
    }
    let bytes = limit + (1 << 10);
    let answered = subject.client.send_bytes(GET_STATUS, padding(bytes)).await;
    expect(
        answered.is_err(),
        format!("a request of {bytes} bytes is an error, since the limit is {limit}"),
        "it is answered",
    )?;
    let after = subject.client.call(GetStatusRequest {}).await;
    after.required("the next call on the same connection is answered")?;
    Ok(())
}

async fn unknown_field(subject: &Subject) -> Verdict {
    let client = subject.dial().await?;
    // The calls of a controller of a later minor, from its first call on.
    let mut calls = vec![
        (
            HandshakeRequest::METHOD,
            subject.handshake_request().encode_to_vec(),
        ),
        (GET_STATUS, Vec::new()),
    ];
    if subject.declares(Capability::Instances) {
        let request = BatchGetInstancesRequest {
            context: Some(client.context()),
            items: vec![subject.unknown_node()],
            ..BatchGetInstancesRequest::default()
        };
        calls.push((BatchGetInstancesRequest::METHOD, request.encode_to_vec()));
    }
    for (method, mut request) in calls {
        request.extend(padding(100));
        let answered = client.send_bytes(method, request).await;
        let expected = format!("{} with an unknown field is answered", method.name);
        answered.required(expected)?;
    }
    Ok(())
}

async fn unimplemented(subject: &Subject) -> Verdict {
    for path in [
        "/cloudprovider.v1.ProviderService/ConformanceCheck",
        "/cloudprovider.v1.ConformanceService/Check",
    ] {
        let expected = format!("{path} is {}", code_name(Code::Unimplemented));
        let method = Method {
            name: "an unknown method",
            path,
            ..*GET_STATUS
        };
        match subject.client.send_bytes(&method, Vec::new()).await {
            Ok(()) => return Err(failed(expected, "it is answered")),
            Err(error) => expect(error.code == Code::Unimplemented, expected, error)?,
        }
    }
    Ok(())
}

async fn idle(subject: &Subject) -> Verdict {
    let waited = limit(subject.inputs().limits.idle);
    tokio::time::sleep(waited).await;
    let answered = subject.idle().call(GetStatusRequest {}).await;
    answered.required(format!(
        "a connection that was idle for {waited:?} and longer is open"
    ))?;
    Ok(())
}

async fn cancelled(subject: &Subject) -> Verdict {
    for wait in [0, 1, 5] {
        let call = subject.client.call(GetStatusRequest {});
        // Dropping the call resets its stream.
        let _ = tokio::time::timeout(Duration::from_millis(wait), call).await;
    }
    let answered = subject.client.call(GetStatusRequest {}).await;
    answered.required("the call after cancelled ones is answered")?;
    Ok(())
}

async fn unknown_metadata(subject: &Subject) -> Verdict {
    let mut metadata = MetadataMap::new();
    for (key, value) in [
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        ("tracestate", "conformance=1"),
        ("x-conformance", "1"),
    ] {
        metadata.insert(key, MetadataValue::from_static(value));
    }
    metadata.insert_bin("x-conformance-bin", MetadataValue::from_bytes(&[0, 255]));
    let client = subject.dial().await?.with_metadata(metadata);
    let shaken = client.call(subject.handshake_request()).await;
    shaken.required("Handshake with further metadata is answered")?;
    let status = client.call(GetStatusRequest {}).await;
    status.required("GetStatus with further metadata is answered")?;
    Ok(())
}
