//! Answers near to real ones: no byte of a provider ends the process, or becomes an answer that
//! breaks a limit of the contract. See docs/evidence.md for how to run them for hours.

use outrigger_api::{MethodRequest, RpcStatus, v1};
use outrigger_core::{
    forbidden_addresses::ForbiddenAddresses,
    node::{answer::MAX_ADDRESSES, instance::Lookup},
    syntax,
};
use outrigger_runtime::fixture::near::{self, Edit};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use prost::Message;
use tonic::{Code, Status};

use super::{
    fake::{self, Reply, ready},
    rig::{Rig, options, service, targets},
    secs,
};
use crate::{Error, handshake};

/// Longest text about a fault that is shown, in bytes.
const LONGEST: usize = 4_096;

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec(any::<Edit>(), 0..6)
}

/// A message near to `seed`, decoded as an answer to the method is.
fn decoded<M: MethodRequest>(seed: &M::Response, edits: &[Edit]) -> Option<M::Response>
where
    M::Response: Message + Default,
{
    let bytes = near::bytes(&seed.encode_to_vec(), edits);
    let checked = M::Response::decode(&*bytes).ok()?;
    assert!(checked.encoded_len() <= 16 * bytes.len() + 16);
    Some(checked)
}

fn introduction() -> v1::HandshakeResponse {
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    v1::HandshakeResponse {
        capabilities: Some(v1::Capabilities {
            instances: Some(v1::InstancesCapability {
                provider_id_prefixes: texts(&["fake://"]),
                managed_label_keys: texts(&["rack"]),
                max_batch_size: 7,
                visibility_delay: Some(prost_types::Duration {
                    seconds: 60,
                    nanos: 5,
                }),
                ..v1::InstancesCapability::default()
            }),
            load_balancers: Some(v1::LoadBalancersCapability {
                classes: texts(&["x/y"]),
                configuration_revision: "1".into(),
                max_in_flight: 3,
                ..v1::LoadBalancersCapability::default()
            }),
            routes: Some(v1::RoutesCapability::default()),
            volumes: Some(v1::VolumesCapability {
                csi_drivers: texts(&["csi.example"]),
                ..v1::VolumesCapability::default()
            }),
            effects: Some(v1::EffectsCapability {
                service_annotation_prefixes: texts(&["write.example/"]),
                condition_type_prefixes: texts(&["write.example/"]),
                ..v1::EffectsCapability::default()
            }),
            ..v1::Capabilities::default()
        }),
        service_annotation_prefixes: texts(&["read.example/"]),
        node_annotation_prefixes: texts(&["read.example/"]),
        ..fake::handshake()
    }
}

fn instance() -> v1::Instance {
    v1::Instance {
        provider_id: "fake://a".into(),
        node_name: "a".into(),
        instance_type: "small".into(),
        zone: "z".into(),
        region: "r".into(),
        addresses: [("InternalIP", "10.0.0.1"), ("Hostname", "a.example")]
            .map(|(kind, address)| v1::NodeAddress {
                r#type: kind.into(),
                address: address.into(),
            })
            .into(),
        additional_labels: [("rack".into(), "7".into())].into(),
        pod_cidrs: vec!["10.244.1.0/24".into()],
        ..v1::Instance::default()
    }
}

proptest! {
    #[test]
    fn of_a_handshake(edits in edits()) {
        let Some(answer) = decoded::<v1::HandshakeRequest>(&introduction(), &edits) else {
            return Ok(());
        };
        match handshake::accept(&options(), None, 1, answer) {
            Ok(accepted) => {
                prop_assert!((1..=63).contains(&accepted.name.len()));
                if let Some(instances) = accepted.instances {
                    prop_assert!((1..=200).contains(&instances.max_batch_size));
                    prop_assert!(instances.visibility_delay <= secs(24 * 3_600));
                    prop_assert!(instances.prefixes.iter().all(|prefix| !prefix.is_empty()));
                }
                if let Some(balancers) = accepted.load_balancers {
                    prop_assert!((1..=256).contains(&balancers.max_in_flight));
                }
            }
            Err(refused) => prop_assert!((1..LONGEST).contains(&refused.reason.len())),
        }
    }

    #[test]
    fn of_an_error(edits in edits(), code in -1_i32..20) {
        let refused = fake::refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(secs(5)));
        let refused = fake::with_effects(&refused, "write.example/a");
        let details = near::bytes(refused.details(), &edits);
        let message = String::from_utf8_lossy(&near::bytes(b"no quota", &edits)).into_owned();
        let status = Status::with_details(Code::from_i32(code), message.clone(), details.clone().into());
        let error = Error::from_status("EnsureLoadBalancer", &status);
        prop_assert!((1..LONGEST).contains(&error.to_string().len()));
        let _ = error.class();
        if let Ok(status) = RpcStatus::decode(&*details) {
            let error = Error::from_item("EnsureLoadBalancer", &RpcStatus { code, message, ..status });
            prop_assert_eq!(error.is_none(), Code::from_i32(code) == Code::Ok);
        }
    }
}

/// Through the whole client: what comes out of it is legal, or an error of that one object.
#[tokio::test(start_paused = true)]
async fn of_machines_and_load_balancers() {
    let rig = Rig::balancing(|_| {}).await;
    let forbidden = ForbiddenAddresses::new([]);
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cases = runner.config().cases;
    let (mut instances, mut balancers) = (0, 0);
    for _ in 0..cases {
        let edits = edits().new_tree(&mut runner).unwrap().current();
        let changed = v1::Instance::decode(&*near::bytes(&instance().encode_to_vec(), &edits));
        if let Ok(changed) = changed {
            rig.fake.on_batch(move |request| {
                let outcome = v1::instance_result::Outcome::Found(changed.clone());
                Reply::Say(v1::BatchGetInstancesResponse {
                    results: vec![fake::result(&request.items[0].name, outcome)],
                })
            });
            match rig.look_up("a").await {
                Ok(Lookup::Found(instance)) => {
                    instances += 1;
                    let is_legal = |text: &str| syntax::label_value(text).is_ok();
                    assert!(
                        is_legal(&instance.zone) && is_legal(&instance.instance_type),
                        "{edits:?}"
                    );
                    for (key, value) in instance.additional_labels.iter() {
                        assert!(
                            syntax::label_key(key).is_ok() && is_legal(value),
                            "{edits:?}"
                        );
                    }
                    assert!(instance.addresses.len() <= MAX_ADDRESSES);
                    for address in &instance.addresses {
                        let ip = address.address.parse();
                        assert!(
                            ip.is_ok_and(|ip| forbidden.check_ip(ip).is_ok())
                                || syntax::dns_name(&address.address).is_ok(),
                            "{edits:?}"
                        );
                    }
                }
                Ok(other) => panic!("{other:?} of {edits:?}"),
                Err(error) => assert!(error.to_string().len() < LONGEST, "{edits:?}"),
            }
        }
        let seed = v1::EnsureLoadBalancerResponse {
            answer: Some(ready()),
        };
        let Some(v1::EnsureLoadBalancerResponse {
            answer: Some(answer),
        }) = decoded::<v1::EnsureLoadBalancerRequest>(&seed, &edits)
        else {
            continue;
        };
        rig.fake
            .balancers
            .ensure
            .on(move |_: &v1::EnsureLoadBalancerRequest| Reply::Say(answer.clone()));
        match rig
            .provider
            .ensure_alone(&service("web"), &targets(["a"]))
            .await
        {
            Ok(answer) => {
                balancers += 1;
                for entry in answer.ingress.iter().flatten() {
                    let ip = entry.ip.parse();
                    assert!(
                        entry.ip.is_empty() || ip.is_ok_and(|ip| forbidden.check_ip(ip).is_ok()),
                        "{edits:?}"
                    );
                    assert!(
                        entry.hostname.is_empty() || syntax::subdomain(&entry.hostname).is_ok(),
                        "{edits:?}"
                    );
                    assert!(
                        entry
                            .ports
                            .iter()
                            .all(|port| (1..=65_535).contains(&port.port)),
                        "{edits:?}"
                    );
                }
                assert!(
                    answer.reason.is_empty() || syntax::reason(&answer.reason).is_ok(),
                    "{edits:?}"
                );
            }
            Err(error) => assert!(error.to_string().len() < LONGEST, "{edits:?}"),
        }
    }
    assert!(instances > cases / 16, "{instances} of {cases} are legal");
    assert!(balancers > cases / 16, "{balancers} of {cases} are legal");
}
