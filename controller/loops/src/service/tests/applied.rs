//! Which targets all load balancers have: what is remembered of it, and what a successor makes of it, also one that follows
//! another program.

use outrigger_core::event::EventContent;
use outrigger_provider_mock::{ServedLoadBalancers, load_balancers::LoadBalancer};

use super::*;
use outrigger_core::targets::ANNOTATION_TARGETS;
use outrigger_kube::fixture::lease::Mood;

/// The revision that the Lease names, if it names one.
pub(super) fn annotation(rig: &Rig) -> Option<String> {
    let lease = rig.lease.lease();
    let annotation = lease["metadata"]["annotations"][ANNOTATION_TARGETS].as_str()?;
    let (revision, _) = annotation.split_once('@')?;
    (!revision.is_empty()).then(|| revision.to_owned())
}

/// It is removed before the first call with others: the result of that call may stay unknown.
#[tokio::test(start_paused = true)]
async fn the_revision_that_all_have_is_on_the_lease() {
    let rig = with_services(3, Setup::default()).await;
    let first = annotation(&rig).expect("all have the first set");
    rig.fail(Method::UpdateLoadBalancerNodes, unavailable());
    rig.leave("n1");
    rig.until("a call", |rig| rig.calls("UpdateLoadBalancerNodes") > 0)
        .await;
    assert_eq!(annotation(&rig), None);
    secs(20).await;
    assert_eq!(annotation(&rig), None);
    rig.cloud.clear_faults();
    rig.until("the end", |rig| annotation(rig).is_some()).await;
    assert_ne!(annotation(&rig), Some(first.clone()));
    // The nodes are what they were, and so is their revision.
    rig.join("n1");
    rig.until("the first set", |rig| {
        annotation(rig).as_ref() == Some(&first)
    })
    .await;
}

/// Found by the simulation: the next leader sent all targets once more.
#[tokio::test(start_paused = true)]
async fn a_provider_that_goes_away_after_the_last_answer_holds_up_no_record() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("the first set", |rig| annotation(rig).is_some())
        .await;
    rig.leave("n1");
    rig.until("the targets", |rig| {
        let all = rig.cloud.load_balancers();
        all.iter().all(|lb| lb.targets.len() == 9)
    })
    .await;
    sleep(Duration::from_millis(50)).await;
    rig.wire.cut();
    secs(10).await;
    assert_eq!(annotation(&rig), None);
    rig.wire.mend();
    rig.until("the record", |rig| annotation(rig).is_some())
        .await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 3);
}

/// All wait for it, not the first one alone.
#[tokio::test(start_paused = true)]
async fn no_call_goes_out_before_the_lease_has_forgotten() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("the first set", |rig| annotation(rig).is_some())
        .await;
    rig.lease.mood(Mood::Silent);
    rig.leave("n1");
    rig.cluster.create_service(service("late"));
    secs(3).await;
    assert!(annotation(&rig).is_some());
    let calls = [
        rig.calls("UpdateLoadBalancerNodes"),
        rig.calls("EnsureLoadBalancer"),
    ];
    assert_eq!(calls, [0, 3]);
    rig.lease.mood(Mood::Well);
    rig.ready("shop/late").await;
    secs(5).await;
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(|lb| lb.targets.len() == 9), "{all:?}");
    rig.until("the end", |rig| annotation(rig).is_some()).await;
}

/// It may be there, with the targets of before.
#[tokio::test(start_paused = true)]
async fn one_that_a_list_did_not_show_holds_up_the_lease() {
    let rig = with_services(1, Setup::default()).await;
    rig.until("the first set", |rig| annotation(rig).is_some())
        .await;
    let first = annotation(&rig);
    rig.services.finish_list(|_| false);
    rig.leave("n1");
    secs(60).await;
    assert_eq!(annotation(&rig), first);
}

fn unavailable() -> InjectedError {
    InjectedError::new(tonic::Code::Unavailable).with_reason("CLOUD_UNAVAILABLE")
}

async fn restart_without_n1(rig: Rig) -> Rig {
    let mut setup = Setup::default();
    setup.nodes.retain(|name| name != "n1");
    rig.restart_with(setup).await
}

/// Over what is settled nothing is called or written, and no event recorded (not S-12). Services that could not get the
/// targets of the others cost the others nothing.
#[tokio::test(start_paused = true)]
async fn a_restart_over_a_thousand_services_calls_for_none_that_is_settled() {
    let rig = with_services(1_000, Setup::default()).await;
    let pause = |rig: &Rig, value: serde_json::Value| {
        rig.cluster.change_service("shop/web-7", |web| {
            web["metadata"]["annotations"]["outrigger.dev/paused"] = value;
        });
    };
    pause(&rig, json!("true"));
    for method in [Method::UpdateLoadBalancerNodes, Method::EnsureLoadBalancer] {
        let refuse = Fault::on(method, Effect::Error(trouble()));
        rig.cloud.inject(refuse.for_service("shop/web-8"));
    }
    rig.leave("n1");
    rig.until("all others have them", |rig| annotation(rig).is_some())
        .await;
    secs(40).await;
    assert_eq!(rig.condition("shop/web-7", "Waiting").unwrap().1, "Paused");
    let (status, _) = rig.condition("shop/web-8", "TargetsInSync").unwrap();
    assert_eq!(status, "False", "after 30 s of failure");

    let calls = |rig: &Rig| (rig.calls("EnsureLoadBalancer"), rig.mutations());
    let before = calls(&rig);
    let rig = restart_without_n1(rig).await;
    secs(30).await;
    let (ensures, mutations) = calls(&rig);
    // Its Ensures would bring the nodes.
    let of_the_failing_one = ensures - before.0;
    assert!(
        (1..=4).contains(&of_the_failing_one),
        "{of_the_failing_one}"
    );
    assert_eq!(mutations, before.1 + of_the_failing_one);

    rig.cloud.clear_faults();
    pause(&rig, json!(null));
    secs(300).await;
    assert_eq!(rig.mutations(), mutations + 2, "one Ensure of each");
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(|lb| lb.targets.len() == 9));
    let before = (rig.mutations(), rig.writes(), rig.events());
    let rig = restart_without_n1(rig).await;
    secs(60).await;
    assert_eq!((rig.mutations(), rig.writes(), rig.events()), before);
    // And it works.
    rig.leave("n3");
    rig.until("an update", |rig| rig.calls("UpdateLoadBalancerNodes") > 0)
        .await;
}

/// Services whose Ensure is background work do not wait for it: it may come hours later.
#[tokio::test(start_paused = true)]
async fn a_successor_finishes_it_for_what_waits_in_the_background_too() {
    for has_record in [true, false] {
        let rig = with_services(20, Setup::default()).await;
        rig.until("the first set", |rig| annotation(rig).is_some())
            .await;
        rig.fail(Method::UpdateLoadBalancerNodes, unavailable());
        rig.leave("n1");
        rig.until("a call", |rig| rig.calls("UpdateLoadBalancerNodes") > 0)
            .await;
        rig.stop().await;
        if !has_record {
            for n in 0..20 {
                rig.cluster.change_service(&format!("shop/web-{n}"), |web| {
                    web["metadata"]["annotations"]["outrigger.dev/last-applied"] = json!(null);
                });
            }
        }
        rig.cloud.clear_faults();
        let slow = Effect::Hang {
            duration: Some(Duration::from_mins(5)),
        };
        rig.cloud
            .inject(Fault::on(Method::EnsureLoadBalancer, slow));
        let mut setup = Setup {
            cluster: rig.cluster.clone(),
            cloud: rig.cloud.clone(),
            lease: rig.lease.clone(),
            ..Setup::serving(ServedLoadBalancers {
                configuration_revision: "2".into(),
                ..ServedLoadBalancers::default()
            })
        };
        setup.nodes.retain(|name| name != "n1");
        let rig = Rig::with(setup).await;
        secs(30).await;
        let all = rig.cloud.load_balancers();
        let updated = all.iter().filter(|lb| lb.targets.len() == 9).count();
        assert!(updated >= 18, "{has_record}: {updated} of {}", all.len());
    }
}

/// The process ends, the other program leads and ends, and this one starts again.
async fn led_by_another(rig: Rig) -> Rig {
    rig.stop().await;
    rig.lease.edit(|lease| {
        let terms = lease["spec"]["leaseTransitions"].as_i64().unwrap();
        lease["spec"]["leaseTransitions"] = json!(terms + 1);
    });
    let (cluster, cloud, lease) = (rig.cluster.clone(), rig.cloud.clone(), rig.lease.clone());
    Rig::with(Setup {
        cluster,
        cloud,
        lease,
        ..Setup::default()
    })
    .await
}

fn ensures(rig: &Rig) -> u64 {
    rig.calls("EnsureLoadBalancer")
}

/// An edit that the other one carried out and that was taken back since is not in the record, nor is a Node that
/// came and went.
#[tokio::test(start_paused = true)]
async fn each_load_balancer_is_ensured_once_and_gets_the_nodes() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let (ensured, updated) = (ensures(&rig), rig.calls("UpdateLoadBalancerNodes"));
    let rig = led_by_another(rig).await;
    rig.until("three Ensures", |rig| ensures(rig) == ensured + 3)
        .await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    assert!(rig.calls("UpdateLoadBalancerNodes") > updated);
    let after = rig.mutations();
    secs(60).await;
    let rig = rig.restart().await;
    secs(60).await;
    assert_eq!(rig.mutations(), after, "this program's own term");
}

/// etcd has gone back in time, or an operator asks for it.
#[tokio::test(start_paused = true)]
async fn a_doubt_has_each_load_balancer_ensured_once() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    secs(60).await;
    let ensured = ensures(&rig);
    rig.sight.doubt(EventContent::normal("Resync", "asked"));
    rig.until("three Ensures", |rig| ensures(rig) == ensured + 3)
        .await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let after = rig.mutations();
    secs(60).await;
    let rig = rig.restart().await;
    secs(60).await;
    assert_eq!(rig.mutations(), after, "once");
}

/// The term that began with it may be over before all are ensured. The periodic comparison finds what the other
/// program left different, and one Ensure repairs it.
#[tokio::test(start_paused = true)]
async fn a_comparison_finds_what_a_term_that_ended_early_left() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let refused = Fault::on(Method::EnsureLoadBalancer, Effect::Error(trouble()));
    rig.cloud.inject(refused.for_service("shop/web-1"));
    let ensured = ensures(&rig);
    let rig = led_by_another(rig).await;
    rig.until("three Ensures", |rig| ensures(rig) >= ensured + 3)
        .await;
    secs(2).await;
    rig.cloud.clear_faults();
    let mut left = rig.cloud.load_balancers().into_iter();
    let is_its_own = |lb: &LoadBalancer| lb.service.as_ref().is_some_and(|s| s.name == "web-1");
    let mut left = LoadBalancer::clone(&left.find(|lb| is_its_own(lb)).unwrap());
    left.targets = [].into();
    rig.cloud.edit_load_balancer(left).unwrap();
    let ensured = ensures(&rig);
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_hours(1));
    let rig = rig.restart_with(setup).await;
    secs(2 * 60 * 60).await;
    assert_eq!(ensures(&rig), ensured + 1, "the one that failed");
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(|lb| lb.targets.len() == 10), "{all:?}");
}
