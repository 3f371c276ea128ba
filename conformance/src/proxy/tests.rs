use outrigger_provider_sdk::Endpoint;
use tokio::time::timeout;

use super::*;

const SOON: Duration = Duration::from_secs(10);
/// The preface of a client, then HEADERS of a call.
const REQUEST: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x01\x04\0\0\0\x01";
/// SETTINGS, then HEADERS, then HEADERS that end the call.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const REPLY: &[u8] = b"\0\0\0\x01\x04\0\0\0\x01\0\0\0\x01\x05\0\0\0\x01";

/// Sends a request through a proxy with a fault; the bytes that come back until the end.
async fn exchange(fault: Fault, answers: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("provider.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let proxy = Proxy::start(&Endpoint::unix(&path).unwrap()).unwrap();
    let mut suite = UnixStream::connect(proxy.socket()).await.unwrap();
    let (mut provider, _) = listener.accept().await.unwrap();
    provider.write_all(SETTINGS).await.unwrap();
    let mut settings = vec![0; SETTINGS.len()];
    suite.read_exact(&mut settings).await.unwrap();
    proxy.set(fault);
    suite.write_all(REQUEST).await.unwrap();
    let mut request = vec![0; REQUEST.len()];
    provider.read_exact(&mut request).await.unwrap();
    if answers {
        provider.write_all(REPLY).await.unwrap();
        if fault == Fault::None {
            provider.shutdown().await.unwrap();
        }
    }
    let mut came = Vec::new();
    timeout(SOON, suite.read_to_end(&mut came))
        .await
        .unwrap()
        .unwrap();
    came
}

#[tokio::test]
async fn each_fault_breaks_the_connection_in_its_own_way() {
    assert_eq!(exchange(Fault::None, true).await, REPLY);
    assert_eq!(exchange(Fault::DropReply, true).await, b"");
    let soon = Fault::Cut(Duration::from_millis(1));
    assert_eq!(exchange(soon, false).await, b"");
}
