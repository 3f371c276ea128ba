//! Providers as commands, as `check-provider` runs them.

use std::{path::PathBuf, time::Duration};

use outrigger_testbed::{Error, provider_check::ProviderCheck, providers::Launch};

use crate::{mock, wait::DEADLINE};

fn check(provider: &[&str]) -> ProviderCheck {
    ProviderCheck {
        controller: PathBuf::from(env!("CARGO_BIN_EXE_cloud-controller-manager")),
        controller_args: Vec::new(),
        provider: Launch::of_command(provider.iter().map(|&part| part.to_owned()).collect()),
        nodes: vec!["first".to_owned(), "late".to_owned()],
        services: true,
        manifests: Vec::new(),
        client: None,
        routes: true,
        timeout: DEADLINE,
    }
}

#[tokio::test]
async fn mock_passes_every_step_of_a_check() {
    let mock = mock::binary().await.to_str().unwrap();
    let flags = ["--synthesize-instances", "--routes", "--route-target=all"];
    let mut steps = 0;
    let provider = [&[mock, "serve"], flags.as_slice()].concat();
    let checked = check(&provider).run(|_| steps += 1).await;
    checked.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(steps, 5);
}

#[tokio::test]
async fn check_of_a_provider_without_instances_ends_with_the_logs() {
    let mock = mock::binary().await.to_str().unwrap();
    let check = ProviderCheck {
        timeout: Duration::from_secs(5),
        ..check(&[mock, "serve"])
    };
    let error = check
        .run(|passed| panic!("{}", passed.step))
        .await
        .unwrap_err();
    let Error::Unfulfilled { step, observed, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(step, "Node first is initialised");
    assert!(observed.contains("uninitialized"), "{observed}");
    let text = error.to_string();
    assert!(text.contains("provider ready"), "{text}");
}

#[tokio::test]
async fn check_of_a_provider_that_ends_shows_its_last_words() {
    let check = check(&["sh", "-c", "echo no credentials; exit 3"]);
    let error = check
        .run(|passed| panic!("{}", passed.step))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the provider ended by itself") && text.contains("no credentials"),
        "{text}"
    );
}
