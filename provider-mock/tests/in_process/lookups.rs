//! Answers of a correct mock.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use outrigger_api::v1::instance_result::Outcome;
use outrigger_api::v1::{AbsenceCertainty, LookupPreference, Node, NodeAddress, PowerState};
use outrigger_provider_mock::cloud::{Clock, Preference};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use outrigger_provider_mock::instances::{PodCidrRange, Power};
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions};

use crate::harness::{Mock, Outcomes, node};

fn certainty(outcome: &Outcome) -> AbsenceCertainty {
    match outcome {
        Outcome::Absent(absent) => absent.certainty(),
        other => panic!("not absent: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_found_by_provider_id_and_else_by_name() {
    let mock = Mock::start(|_| {}).await;
    mock.create("worker-1");
    mock.create("worker-2");
    let answer = mock.ask_names(&["worker-1"]).await.unwrap();
    let by_name = answer.found("worker-1").clone();
    assert_eq!(by_name.provider_id, "mock://i-646356604c197d66");
    assert_eq!(by_name.node_name, "worker-1");
    assert_eq!(by_name.instance_type, "mock.medium");
    assert_eq!(
        (by_name.zone.as_str(), by_name.region.as_str()),
        ("mock-1b", "mock-1")
    );
    assert_eq!(by_name.power_state(), PowerState::Running);
    let types: Vec<_> = by_name
        .addresses
        .iter()
        .map(|one| one.r#type.as_str())
        .collect();
    assert_eq!(types, ["InternalIP", "InternalIP", "Hostname"]);

    // The id decides, not the name.
    let renamed = Node {
        provider_id: by_name.provider_id.clone(),
        ..node("worker-2")
    };
    let answer = Outcomes::of(mock.ask(vec![renamed]).await.unwrap());
    assert_eq!(answer.found("worker-2").provider_id, by_name.provider_id);
}

#[tokio::test(start_paused = true)]
async fn effects_on_nodes_come_only_where_they_were_asked_for() {
    let mock = Mock::start(|_| {}).await;
    mock.create("worker-1");
    let plain = mock.ask(vec![node("worker-1")]).await.unwrap();
    assert!(plain[0].effects.is_none());
    let options = ProviderOptions {
        instance_effects: true,
        ..ProviderOptions::default()
    };
    let mock = Mock::over(mock.cloud, options).await;
    let capabilities = mock.handshake.capabilities.as_ref().unwrap();
    let declared = capabilities.effects.as_ref().unwrap();
    let prefix = &declared.node_annotation_prefixes[0];
    assert_eq!(declared.condition_type_prefixes, [&**prefix]);
    for (power, status, events) in [(Power::Running, "True", 0), (Power::Shutdown, "False", 1)] {
        mock.cloud.set_power("worker-1", power).unwrap();
        let results = mock.ask(vec![node("worker-1")]).await.unwrap();
        let effects = results[0].effects.as_ref().unwrap();
        assert!(
            effects
                .set_annotations
                .contains_key(&format!("{prefix}instance"))
        );
        assert_eq!(effects.conditions[0].r#type, format!("{prefix}Running"));
        assert_eq!(effects.conditions[0].status, status);
        assert_eq!(effects.events.len(), events);
    }
    let absent = mock.ask(vec![node("worker-2")]).await.unwrap();
    let effects = absent[0].effects.as_ref().unwrap();
    assert_eq!(
        effects.remove_annotations.len() + effects.remove_conditions.len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn each_id_that_is_not_ours_gets_its_own_answer() {
    let mock = Mock::start(|config| config.synthesize = true).await;
    let with_id = |name: &str, id: &str| Node {
        provider_id: id.into(),
        ..node(name)
    };
    let nodes = vec![
        with_id("foreign", "aws:///eu-1a/i-1"),
        with_id("longer-scheme", "mock-2://i-1"),
        with_id("no-scheme", "i-1"),
        with_id("malformed", "mock://not/an id"),
        with_id("empty", "mock://"),
        with_id("gone", "mock://i-1"),
        node("good"),
    ];
    let answer = Outcomes::of(mock.ask(nodes).await.unwrap());
    for name in ["foreign", "longer-scheme", "no-scheme"] {
        assert!(
            matches!(answer.outcome(name), Outcome::NotManaged(_)),
            "{name}"
        );
    }
    for name in ["malformed", "empty"] {
        let (code, reason) = answer.error(name);
        assert_eq!(code, tonic::Code::InvalidArgument);
        assert_eq!(reason.as_deref(), Some("MALFORMED_PROVIDER_ID"));
    }
    assert_eq!(
        certainty(answer.outcome("gone")),
        AbsenceCertainty::Confirmed
    );
    answer.found("good");
}

#[tokio::test(start_paused = true)]
async fn absence_is_certain_only_if_the_cloud_was_to_be_asked_now() {
    let mock = Mock::start(|_| {}).await;
    for (staleness, want) in [
        (Duration::ZERO, AbsenceCertainty::Confirmed),
        (Duration::from_secs(1), AbsenceCertainty::NotVisibleYet),
    ] {
        let results = mock
            .ask_within(vec![node("none")], staleness, None)
            .await
            .unwrap();
        assert_eq!(certainty(Outcomes::of(results).outcome("none")), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_synthesised_instance_is_remembered_and_a_deleted_one_stays_deleted() {
    let mock = Mock::start(|config| config.synthesize = true).await;
    let results = mock.ask_names(&["n-1", "n-2"]).await.unwrap();
    let id = results.found("n-1").provider_id.clone();
    mock.cloud.set_power("n-2", Power::Shutdown).unwrap();
    mock.cloud.delete("n-1").unwrap();
    for _ in 0..2 {
        let by_id = Node {
            provider_id: id.clone(),
            ..node("n-1")
        };
        let by_id = Outcomes::of(mock.ask(vec![by_id]).await.unwrap());
        assert_eq!(certainty(by_id.outcome("n-1")), AbsenceCertainty::Confirmed);
        let by_name = mock.ask_names(&["n-1", "n-2"]).await.unwrap();
        assert_eq!(
            certainty(by_name.outcome("n-1")),
            AbsenceCertainty::Confirmed
        );
        assert_eq!(by_name.found("n-2").power_state(), PowerState::Shutdown);
    }
    // It is made again: another machine of the same name.
    mock.create("n-1");
    let again = mock.ask_names(&["n-1"]).await.unwrap();
    assert_ne!(again.found("n-1").provider_id, id);
}

#[tokio::test(start_paused = true)]
async fn a_mock_that_forgot_makes_the_same_instance_for_the_id_that_it_gave() {
    let synthesizing = |config: &mut CloudConfig| config.synthesize = true;
    let first = Mock::start(synthesizing).await;
    let given = first
        .ask_names(&["n-1"])
        .await
        .unwrap()
        .found("n-1")
        .clone();
    let second = Mock::start(synthesizing).await;
    let initialised = Node {
        provider_id: given.provider_id.clone(),
        ..node("n-1")
    };
    let outcomes = Outcomes::of(second.ask(vec![initialised]).await.unwrap());
    let outcomes = outcomes.found("n-1");
    assert_eq!(
        (&outcomes.provider_id, &outcomes.zone),
        (&given.provider_id, &given.zone)
    );
    assert_eq!(outcomes.addresses, given.addresses);
}

#[tokio::test(start_paused = true)]
async fn a_synthesised_instance_has_its_kubelets_address() {
    let mock = Mock::start(|config| config.synthesize = true).await;
    assert_eq!(
        mock.handshake.node_annotation_prefixes,
        ["alpha.kubernetes.io/provided-node-ip"]
    );
    let mut annotated = node("annotated");
    annotated.annotations.insert(
        "alpha.kubernetes.io/provided-node-ip".into(),
        "2001:db8::9, 192.0.2.9".into(),
    );
    let mut reported = node("reported");
    for (kind, address) in [
        ("Hostname", "reported"),
        ("InternalIP", "192.0.2.8"),
        ("ExternalIP", "198.51.100.8"),
    ] {
        reported.addresses.push(NodeAddress {
            r#type: kind.into(),
            address: address.into(),
        });
    }
    let answer = Outcomes::of(mock.ask(vec![annotated, reported]).await.unwrap());
    let ips = |name: &str| -> Vec<String> {
        let addresses = answer.found(name).addresses.iter();
        let internal = addresses.filter(|one| one.r#type == "InternalIP");
        internal.map(|one| one.address.clone()).collect()
    };
    assert_eq!(ips("annotated"), ["2001:db8::9", "192.0.2.9"]);
    assert_eq!(ips("reported")[0], "192.0.2.8");
    assert!(
        ips("reported")[1].starts_with("fd00:"),
        "{:?}",
        ips("reported")
    );
}

#[tokio::test(start_paused = true)]
async fn a_young_instance_is_not_visible_yet() {
    let delay = Duration::from_secs(30);
    let mock = Mock::start(|config| {
        config.visibility_delay = Some(delay);
        config.clock = Clock::tokio();
    })
    .await;
    let declared = mock
        .handshake
        .capabilities
        .clone()
        .unwrap()
        .instances
        .unwrap();
    assert_eq!(declared.visibility_delay.unwrap().seconds, 30);
    mock.create("n-1");
    let answer = mock.ask_names(&["n-1"]).await.unwrap();
    assert_eq!(
        certainty(answer.outcome("n-1")),
        AbsenceCertainty::NotVisibleYet
    );
    assert_eq!(mock.list().await.unwrap(), (Vec::new(), true));

    tokio::time::advance(delay).await;
    mock.ask_names(&["n-1"]).await.unwrap().found("n-1");
    assert_eq!(mock.list().await.unwrap().0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_whole_and_says_what_the_lookups_say() {
    for count in [0_usize, 1, 9, 10, 11, 95] {
        let mock = Mock::start(|config| config.page_size = NonZeroUsize::new(10).unwrap()).await;
        let names: Vec<String> = (0..count).map(|index| format!("n-{index}")).collect();
        for name in &names {
            mock.create(name);
        }
        let (listed, complete) = mock.list().await.unwrap();
        assert!(complete);
        let ids: BTreeSet<_> = listed.iter().map(|one| one.provider_id.as_str()).collect();
        assert_eq!((ids.len(), listed.len()), (count, count));
        let pages = count.div_ceil(10).max(1) as u64;
        assert_eq!(mock.cloud.counters().cloud["ListInstances"].served, pages);
        if count > 0 {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let answer = mock.ask_names(&names).await.unwrap();
            for one in listed {
                assert_eq!(&one, answer.found(&one.node_name));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_handshake_says_how_the_cloud_is() {
    for (preference, want) in [
        (Preference::Each, LookupPreference::Each),
        (Preference::Batch, LookupPreference::Batch),
        (Preference::List, LookupPreference::ListAll),
    ] {
        let mut config = CloudConfig::new().unwrap();
        config.preference = preference;
        config.provider_name = "my-cloud".parse().unwrap();
        let options = ProviderOptions {
            max_batch_size: 50,
            without_cluster_id: true,
            managed_label_keys: vec!["rack".into()],
            ..ProviderOptions::default()
        };
        let mock = Mock::over(Cloud::new(config), options).await;
        let said = mock
            .handshake
            .capabilities
            .clone()
            .unwrap()
            .instances
            .unwrap();
        assert_eq!(said.lookup_preference(), want);
        assert_eq!((said.max_batch_size, said.list), (50, true));
        assert_eq!(said.managed_label_keys, ["rack"]);
        assert_eq!(mock.handshake.provider_name, "my-cloud");
        assert!(mock.handshake.without_cluster_id);
        mock.create("n-1");
        let id = mock
            .ask_names(&["n-1"])
            .await
            .unwrap()
            .found("n-1")
            .provider_id
            .clone();
        assert!(id.starts_with("my-cloud://"), "{id}");
    }
}

#[tokio::test]
async fn instances_have_pod_cidrs_where_the_cloud_allocates_them() {
    let mock = Mock::start(|config| {
        config.synthesize = true;
        let range = "10.244.0.0/23".parse().unwrap();
        config.pod_cidrs = vec![PodCidrRange::new(range, 24).unwrap()];
    })
    .await;
    let capability = mock.handshake.capabilities.clone().unwrap().instances;
    assert!(capability.unwrap().allocates_pod_cidrs);
    let outcomes = mock.ask_names(&["a", "b", "c"]).await.unwrap();
    let cidrs = ["a", "b", "c"].map(|name| outcomes.found(name).pod_cidrs.clone());
    let mut given = cidrs.concat();
    given.sort_unstable();
    assert_eq!(given, ["10.244.0.0/24", "10.244.1.0/24"], "{cidrs:?}");
    let (listed, _) = mock.list().await.unwrap();
    assert_eq!(listed.iter().flat_map(|one| &one.pod_cidrs).count(), 2);

    let bad = Effect::BadAnswer(BadAnswer::MalformedCidr);
    mock.cloud.inject(Fault::on(Method::BatchGetInstances, bad));
    let outcomes = mock.ask_names(&["a"]).await.unwrap();
    assert_eq!(outcomes.found("a").pod_cidrs, ["pods/24"]);

    let mock = Mock::start(|config| config.synthesize = true).await;
    let capability = mock.handshake.capabilities.clone().unwrap().instances;
    assert!(!capability.unwrap().allocates_pod_cidrs);
    let outcomes = mock.ask_names(&["a"]).await.unwrap();
    assert!(outcomes.found("a").pod_cidrs.is_empty());
}
