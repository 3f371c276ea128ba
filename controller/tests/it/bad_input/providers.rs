//! Providers that are not there, are others, or are none: said in a sentence, and healed by the
//! right one.

use std::time::Duration;

use outrigger_api::v1::{self, instance_result::Outcome};
use outrigger_testbed::nodes::Machine;
use tokio::{io::AsyncWriteExt, net::UnixListener, task::JoinSet};

use crate::{
    mock::Mock,
    scripted::{self, Scripted, handshake},
    stage::{Setup, Stage},
};

const A_WHILE: Duration = Duration::from_millis(500);

/// Nothing happens to nodes until the right provider is there, and the process stays.
async fn heals(mut stage: Stage, before: impl AsyncFnOnce(&mut Stage)) {
    let pid = stage.controller.pid();
    stage.register(&Machine::new("waiting")).await;
    stage.untouched("waiting", A_WHILE).await;
    before(&mut stage).await;
    stage.start_mock(&["--synthesize-instances"]).await;
    stage.synced("waiting").await;
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn one_that_is_not_there_is_waited_for() {
    let mut stage = Setup::without_provider().start().await;
    let endpoint = Mock::endpoint(stage.dir());
    let sentence = format!("no provider answers at {endpoint}: ");
    let line = stage.controller.says(&["WARN", &sentence]).await;
    assert!(
        line.contains("is it running, and is this its endpoint?"),
        "{line}"
    );
    heals(stage, async |stage| {
        assert_eq!(stage.controller.lines(&sentence), 1);
    })
    .await;
}

#[tokio::test]
async fn one_of_another_revision_is_named_with_both() {
    let backstage = Setup::without_provider().prepare().await;
    let mut future = handshake();
    future.minor = 99;
    let provider = Scripted::serve(backstage.dir(), future, |_| unreachable!("not asked"));
    let mut stage = backstage.start();
    let line = stage
        .controller
        .says(&["the provider chose revision 99 of cloudprovider.v1, the controller speaks 1 to 1"])
        .await;
    assert!(line.contains("upgrade the older of the two"), "{line}");
    heals(stage, async |_| drop(provider)).await;
}

#[tokio::test]
async fn one_that_is_no_provider_of_ours_is_said_to_be_none() {
    let backstage = Setup::without_provider().prepare().await;
    let nothing = v1::HandshakeResponse::default();
    let provider = Scripted::serve(backstage.dir(), nothing, |_| unreachable!("not asked"));
    let mut stage = backstage.start();
    stage
        .controller
        .says(&["answer to the handshake breaks the contract: minor is not set"])
        .await;
    heals(stage, async |_| drop(provider)).await;
}

#[tokio::test]
async fn one_that_speaks_something_else_is_not_fatal() {
    let backstage = Setup::without_provider().prepare().await;
    let socket = backstage.dir().join("provider.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut rude = JoinSet::new();
    rude.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream
                .write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nwhat?")
                .await;
        }
    });
    let mut stage = backstage.start();
    stage
        .controller
        .says(&["WARN", "provider down", "provider.sock"])
        .await;
    heals(stage, async |_| rude.shutdown().await).await;
}

#[tokio::test]
async fn one_of_another_name_is_named_with_the_one_that_was_wanted() {
    let mut stage = Setup::mock(&["--synthesize-instances", "--provider-name=other"])
        .flag("--cloud-provider=mock")
        .start()
        .await;
    let sentence = "the provider calls itself other, but --cloud-provider is mock";
    let line = stage.controller.says(&[sentence]).await;
    assert!(line.contains("WARN"), "{line}");
    heals(stage, async |stage| stage.mock.kill().await).await;
}

#[tokio::test]
async fn one_that_changes_its_name_is_not_asked() {
    let mut stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("first")).await;
    stage.synced("first").await;
    stage.mock.kill().await;
    stage
        .start_mock(&["--synthesize-instances", "--provider-name=other"])
        .await;
    stage
        .controller
        .says(&["the provider was mock and now calls itself other"])
        .await;
    heals(stage, async |stage| stage.mock.kill().await).await;
}

#[tokio::test]
async fn one_whose_greeting_makes_no_sense_is_refused() {
    let backstage = Setup::without_provider().prepare().await;
    let mut strange = handshake();
    strange.provider_name = "No Name\u{1b}[31m".to_owned();
    let provider = Scripted::serve(backstage.dir(), strange, |_| {
        Outcome::Found(scripted::instance("mock://1"))
    });
    let mut stage = backstage.start();
    let line = stage
        .controller
        .says(&["answer to the handshake breaks the contract"])
        .await;
    assert!(line.contains("provider_name"), "{line}");
    assert!(!line.contains('\u{1b}'), "{line:?}");
    heals(stage, async |_| drop(provider)).await;
}
