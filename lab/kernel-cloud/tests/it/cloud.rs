//! Clouds and machines.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use outrigger_provider_linux::cloud::{Cloud, NewMachine};

use crate::rig::{Rig, in_namespace, inside};

/// The kind of error with which a connection from a namespace ends. A refusal comes from the other machine.
fn knock(namespace: &str, address: IpAddr) -> ErrorKind {
    let knock = || TcpStream::connect_timeout(&SocketAddr::new(address, 9), Duration::from_secs(2));
    in_namespace(namespace, knock).unwrap_err().kind()
}

#[test]
fn machines_reach_each_other_through_the_router_and_a_stopped_one_is_cut_off() {
    let Some(rig) = Rig::new("tcloud") else {
        return;
    };
    let (one, two) = (rig.machine("worker-1"), rig.machine("worker-2"));
    assert_eq!(rig.machines(), [one.clone(), two.clone()]);
    let two_answers = || {
        let addresses = two.addresses.iter();
        let kinds = addresses.map(|address| knock(&one.namespace, *address));
        assert_eq!(kinds.collect::<Vec<_>>(), [ErrorKind::ConnectionRefused; 2]);
    };
    two_answers();
    rig.runtime
        .block_on(rig.cloud.power("worker-2", false))
        .unwrap();
    assert!(!rig.machines()[1].running);
    assert_ne!(
        knock(&one.namespace, two.addresses[0]),
        ErrorKind::ConnectionRefused
    );
    rig.runtime
        .block_on(rig.cloud.power("worker-2", true))
        .unwrap();
    assert_eq!(rig.machines(), [one.clone(), two.clone()]);
    two_answers();
}

#[test]
fn a_machine_that_is_made_again_has_another_id_and_the_same_name() {
    let Some(rig) = Rig::new("tagain") else {
        return;
    };
    let first = rig.machine("worker-1");
    let new = NewMachine {
        name: "worker-1".to_owned(),
        id: None,
        zone: String::new(),
        kind: String::new(),
    };
    let refusal = rig
        .runtime
        .block_on(rig.cloud.add(&new))
        .unwrap_err()
        .to_string();
    assert_eq!(refusal, "there is a machine worker-1 already");
    rig.runtime.block_on(rig.cloud.delete("worker-1")).unwrap();
    assert_eq!(rig.machines(), []);
    let second = rig.machine("worker-1");
    assert_eq!(first.name, second.name);
    assert_ne!(first.provider_id, second.provider_id);
}

#[test]
fn a_cloud_that_is_removed_leaves_no_namespace_and_no_link() {
    let Some(rig) = Rig::new("tdown") else { return };
    rig.machine("worker-1");
    let cloud = rig.cloud.clone();
    drop(rig);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(cloud.machines()).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no cloud tdown; `cloud up --cloud tdown` makes it"
    );
    let error = inside("or-tdown-worker-1", &["true"]).unwrap_err();
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn names_that_would_be_ambiguous_are_refused() {
    for name in ["", "two-parts", "UPPER", "thirteen-lett", "abcdefghijklm"] {
        assert!(Cloud::named(name).is_err(), "{name}");
    }
    assert!(Cloud::named("demo1").is_ok());
}
