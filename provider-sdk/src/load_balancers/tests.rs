use std::time::Duration;

use outrigger_api::v1::LoadBalancerDisposition as Wire;

use super::*;
use crate::Ingress;

fn load_balancer() -> LoadBalancer {
    LoadBalancer {
        id: "lb-1".to_owned(),
        name: "web".to_owned(),
        ingress: vec![
            Ingress::ip([192, 0, 2, 1].into()),
            Ingress::proxy([192, 0, 2, 2].into()),
            Ingress::hostname("web.example"),
        ],
    }
}

#[test]
fn addresses_say_their_mode_only_where_it_is_known() {
    let response = Answer::from(Ensured::Ready(load_balancer()))
        .because("Done", "It is made")
        .into_wire();
    assert_eq!(response.disposition(), Wire::Ready);
    assert_eq!(
        (response.reason.as_str(), response.message.as_str()),
        ("Done", "It is made")
    );
    assert_eq!(response.identity.unwrap().id, "lb-1");
    let ingress = response.status.unwrap().ingress;
    let modes: Vec<_> = ingress
        .iter()
        .map(|one| {
            (
                one.ip.as_str(),
                one.hostname.as_str(),
                one.ip_mode.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        modes,
        [
            ("192.0.2.1", "", None),
            ("192.0.2.2", "", Some("Proxy")),
            ("", "web.example", None)
        ]
    );
}

/// LBS-20.
#[test]
fn the_time_to_ask_again_is_kept_in_its_range() {
    for (said, sent) in [(0, 1), (7, 7), (100_000, 300)] {
        let retry_after = Duration::from_secs(said);
        let ensured = Ensured::InProgress {
            retry_after,
            load_balancer: None,
        };
        let ensured = Answer::from(ensured).into_wire();
        let updated = Answer::from(Updated::InProgress { retry_after }).into_wire();
        let deleted = Answer::from(Deleted::InProgress { retry_after }).into_wire();
        for answer in [
            ensured.retry_after,
            updated.retry_after,
            deleted.retry_after,
        ] {
            assert_eq!(answer.unwrap().seconds, sent);
        }
    }
}

#[test]
fn an_unknown_status_takes_no_address_away() {
    let half = |ingress| LoadBalancer {
        ingress,
        ..load_balancer()
    };
    let ensured = |load_balancer| {
        Answer::from(Ensured::InProgress {
            retry_after: Duration::from_secs(1),
            load_balancer,
        })
        .into_wire()
    };
    assert!(ensured(None).status.is_none());
    let nothing = ensured(Some(half(Vec::new())));
    assert!(nothing.status.is_none() && nothing.identity.is_some());
    let early = ensured(Some(half(load_balancer().ingress)));
    assert_eq!(early.status.unwrap().ingress.len(), 3);
    let observed = Observed::InProgress(Some(half(Vec::new())));
    let observed = Answer::from(observed).into_wire();
    assert_eq!(observed.disposition(), Wire::InProgress);
    assert!(observed.status.is_none());
    let updated = Answer::from(Updated::Ready { ingress: None }).into_wire();
    assert!(updated.status.is_none());
}

#[test]
fn long_words_are_cut() {
    let answer = Answer::from(Deleted::Retained).because("R".repeat(200), "m".repeat(2_000));
    let response = answer.into_wire();
    assert_eq!(response.disposition(), Wire::Retained);
    assert!(response.reason.len() <= 128 && response.message.len() <= 1_024);
}

#[test]
fn classes_decide_who_is_served() {
    let service = |class: Option<&str>| Service {
        load_balancer_class: class.map(str::to_owned),
        ..Service::default()
    };
    let mut capability = LoadBalancersCapability {
        classes: vec!["a".to_owned()],
        ..LoadBalancersCapability::default()
    };
    assert!(capability.serves(&service(None)) && capability.serves(&service(Some("a"))));
    assert!(!capability.serves(&service(Some("b"))));
    capability.without_default_class = true;
    assert!(!capability.serves(&service(None)));
}
