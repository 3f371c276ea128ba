use tokio::{
    net::UnixListener,
    time::{Instant, timeout},
};

use super::*;

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_cut_is_the_end_of_the_connection_though_its_channel_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("provider.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let dialed = dial(&path, Manner::default());
    let (dialed, accepted) = tokio::join!(dialed, listener.accept());
    let ((channel, wire), (mut provider, _)) = (dialed.unwrap(), accepted.unwrap());
    let mut preface = [0; 3];
    provider.read_exact(&mut preface).await.unwrap();
    assert_eq!(&preface, b"PRI");
    wire.cut();
    let mut rest = Vec::new();
    let ended = timeout(SOON, provider.read_to_end(&mut rest)).await;
    assert!(ended.is_ok_and(|read| read.is_ok()));
    drop(channel);
}

#[tokio::test]
async fn bytes_of_the_provider_arrive_late_and_whole() {
    let (provider, end) = UnixStream::pair().unwrap();
    let (mut suite, relay) = UnixStream::pair().unwrap();
    let late = Duration::from_millis(20);
    let mut relays = JoinSet::new();
    relays.spawn(delayed(end, relay, late));
    let (mut from_suite, mut to_suite) = provider.into_split();
    suite.write_all(b"request").await.unwrap();
    let mut request = [0; 7];
    from_suite.read_exact(&mut request).await.unwrap();
    assert_eq!(&request, b"request");
    let sent = Instant::now();
    to_suite.write_all(b"reply").await.unwrap();
    drop((from_suite, to_suite));
    let mut reply = Vec::new();
    suite.read_to_end(&mut reply).await.unwrap();
    assert_eq!(reply, b"reply");
    assert!(sent.elapsed() >= late);
}
