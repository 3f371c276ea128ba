//! Fields of a later minor.

use super::*;

/// All that the controller reads of a provider, in one text.
async fn read_all(rig: &Rig) -> Vec<String> {
    let provider = &rig.provider;
    let (web, all) = (service("web"), targets(["a"]));
    let shown = |what: &dyn Debug| format!("{what:?}");
    let mut read = Vec::new();

    let session = provider.session().unwrap();
    read.push(shown(&(&session.instances, &session.load_balancers)));
    read.push(shown(&(&session.routes, &session.volumes)));
    read.push(shown(&(&session.rates, session.max_send_bytes)));
    read.push(shown(&provider.health()));

    rig.fake.on_batch(|request| {
        let one = |node: &v1::Node| match &*node.name {
            "refused" => {
                let refused = refusal(Code::NotFound, "INVALID_CONFIGURATION", None);
                result("refused", Outcome::Error(item(&refused)))
            }
            _ => found(node),
        };
        let results = request.items.iter().map(one).collect();
        Reply::Say(v1::BatchGetInstancesResponse { results })
    });
    let nodes = ["a", "refused"].map(str::to_owned);
    read.push(shown(&rig.look_up_all(nodes).await));
    let listed = v1::ListInstancesResponse {
        items: vec![v1::Instance {
            provider_id: "fake://a".into(),
            ..v1::Instance::default()
        }],
        complete: true,
    };
    rig.fake.on_list(vec![listed], None);
    read.push(shown(
        &provider
            .instances()
            .list(LookupPurpose::Initialization, Arc::new(|_| true))
            .await,
    ));

    read.push(shown(&provider.ensure_alone(&web, &all).await));
    read.push(shown(&provider.load_balancers().get(&web, &all).await));
    let update = provider.update_alone(&web, &all);
    read.push(shown(&update.await));
    read.push(shown(&provider.delete_alone(&web).await));
    rig.fake
        .balancers
        .on_list(vec![Step::Say(v1::ListLoadBalancersResponse {
            items: vec![v1::OwnedLoadBalancer::default()],
            complete: true,
        })]);
    read.push(shown(&provider.load_balancers().list().await));
    rig.fake.balancers.plan.on(|_| {
        Reply::Say(v1::PlanLoadBalancerResponse {
            changes: vec![v1::PlannedChange {
                action: v1::ChangeAction::Create.into(),
                ..v1::PlannedChange::default()
            }],
        })
    });
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    read.push(shown(&plan.await));

    read.push(shown(&create(rig, 1).await));
    read.push(shown(&delete(rig, 1).await));
    let route = v1::Route {
        destination_cidr: "10.0.1.0/24".into(),
        node_name: "a".into(),
        ..v1::Route::default()
    };
    rig.fake
        .routes
        .on_list(vec![Step::Say(v1::ListRoutesResponse {
            items: vec![route],
            complete: true,
        })]);
    read.push(shown(&provider.routes().list().await));
    read.push(shown(&look_up(rig, "pv").await));
    read
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_later_minor_are_ignored_in_each_message_of_each_answer() {
    let plain = serving_all(false, |_| {}).await;
    let later = serving_all(true, |_| {}).await;
    let (plain, later) = (read_all(&plain).await, read_all(&later).await);
    for (plain, later) in plain.iter().zip(&later) {
        assert_eq!(plain, later);
    }
    let failed: Vec<_> = later.iter().filter(|text| text.contains("Err(")).collect();
    let refused = "INVALID_CONFIGURATION";
    assert_eq!(failed.len(), 1, "{failed:#?}");
    assert!(failed[0].contains(refused), "{failed:#?}");
}
