use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::instances::{InstanceSpec, Placement, Power};
use crate::load_balancers::{AddressMode, LoadBalancer, LoadBalancerInventory, ServiceTag, Target};
use crate::routes::RouteTarget;
use crate::{Cloud, CloudConfig};

fn file(directory: &Path) -> StateFile {
    StateFile::new(directory.join("state.json"))
}

fn inventory(names: &[String], stopped: usize, deleted: usize) -> Holdings {
    let value = |text: &str| text.parse().unwrap();
    let mut placement = Placement::new(value("mock-1"), Vec::new(), value("mock.medium")).unwrap();
    placement.labels = BTreeMap::from([("rack".parse().unwrap(), value("r1"))]);
    let mut inventory = Inventory::default();
    for (index, name) in names.iter().enumerate() {
        let spec = InstanceSpec {
            power: if index < stopped {
                Power::Shutdown
            } else {
                Power::Running
            },
            ..InstanceSpec::named(name.parse().unwrap())
        };
        let built = spec.build(
            &placement,
            0,
            Timestamp::from_second(1_800_000_000).unwrap(),
        );
        let id = inventory.insert(built).unwrap().id.clone();
        if index < deleted {
            inventory.remove(&id);
        }
    }
    Holdings {
        instances: inventory,
        ..Holdings::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_written_state_is_read(
        names in proptest::collection::btree_set("[a-z][a-z0-9]{0,8}", 0..20),
        stopped in 0_usize..20,
        deleted in 0_usize..20,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<String> = names.into_iter().collect();
        let inventory = inventory(&names, stopped, deleted);
        file(directory.path()).write(&inventory).unwrap();
        prop_assert_eq!(file(directory.path()).read().unwrap(), Some(inventory));
    }
}

fn load_balancers(count: usize) -> Holdings {
    let targets: Arc<[Target]> = ["n-1", "n-2"]
        .map(|node| Target {
            node: node.into(),
            address: Some([10, 0, 0, 4].into()),
        })
        .into();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let load_balancers = (0..count).map(|index| LoadBalancer {
        id: format!("lb-{index}"),
        name: format!("default-{index}"),
        cluster: "c".to_owned(),
        service: (index > 0).then(|| ServiceTag {
            namespace: "default".to_owned(),
            name: index.to_string(),
            uid: format!("uid-{index}"),
        }),
        address_mode: AddressMode::Proxy,
        addresses: vec![[192, 0, 2, index as u8].into()],
        ports: vec!["TCP/80:30080".parse().unwrap()],
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        health_check_node_port: 30_999,
        options: [("scheme".to_owned(), "internal".to_owned())].into(),
        targets: Arc::clone(&targets),
        protected: true,
        created_at: now,
        ready_at: now,
        gone_at: (index > 1).then_some(now),
    });
    Holdings {
        load_balancers: LoadBalancerInventory::restore(load_balancers.collect()).unwrap(),
        ..Holdings::default()
    }
}

#[test]
fn load_balancers_are_read_as_they_were_and_share_equal_targets() {
    let directory = tempfile::tempdir().unwrap();
    let state = file(directory.path());
    let written = load_balancers(3);
    state.write(&written).unwrap();
    let text = fs::read_to_string(&state.path).unwrap();
    let read = state.read().unwrap().unwrap();
    assert_eq!(read, written);
    let targets: Vec<_> = read.load_balancers.iter().map(|one| &one.targets).collect();
    assert!(Arc::ptr_eq(targets[0], targets[2]));

    let twice = text.replacen("192.0.2.1", "192.0.2.2", 1);
    fs::write(&state.path, twice).unwrap();
    let error = state.read().unwrap_err().to_string();
    for part in ["192.0.2.2 belongs to", "is damaged"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn routes_are_read_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let state = file(directory.path());
    let targets = [
        RouteTarget {
            node: "n-1".to_owned(),
            provider_id: "mock://i-1".to_owned(),
            next_hop: Some([10, 0, 0, 1].into()),
            addresses: vec!["ExternalIP=192.0.2.1".parse().unwrap()],
        },
        RouteTarget::default(),
    ];
    let routes = targets.into_iter().zip(0..).map(|(target, index)| Route {
        name: format!("r-{index}"),
        cluster: (index == 0).then(|| "c".to_owned()),
        destination: format!("10.1.{index}.7/24").parse().unwrap(),
        target,
        blackhole: index == 1,
        created_at: Timestamp::from_second(1_800_000_000).unwrap(),
    });
    let written = Holdings {
        routes: RouteTable::restore(routes.collect()).unwrap(),
        ..Holdings::default()
    };
    state.write(&written).unwrap();
    assert_eq!(state.read().unwrap(), Some(written));

    let text = fs::read_to_string(&state.path).unwrap();
    let twice = text.replacen("\"r-1\"", "\"r-0\"", 1);
    let none = text.replacen("10.1.1.7/24", "10.1.1.7", 1);
    for (text, says) in [(twice, "a route r-0 already"), (none, "is no CIDR")] {
        fs::write(&state.path, text).unwrap();
        let error = state.read().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let state = file(directory.path());
    let left_behind = directory.path().join(".state.json.tmp");
    fs::write(&left_behind, "").unwrap();
    fs::set_permissions(&left_behind, Permissions::from_mode(0o644)).unwrap();
    state.write(&inventory(&["a".into()], 0, 0)).unwrap();
    let mode = fs::metadata(&state.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!left_behind.exists());
}

#[test]
fn a_damaged_file_is_refused_by_name_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let state = file(directory.path());
    state
        .write(&inventory(&["a".into(), "b".into()], 0, 0))
        .unwrap();
    let good = fs::read_to_string(&state.path).unwrap();
    let cut = good[..good.len() / 2].to_owned();
    let twice = good.replace("\"name\": \"b\"", "\"name\": \"a\"");
    let newer = good.replace("state/1", "state/2");
    let unknown = good.replacen("\"power\"", "\"colour\": \"red\", \"power\"", 1);
    let nonsense = good.replace("\"running\"", "\"walking\"");
    for (text, says) in [
        ("", "EOF"),
        ("not json", "line 1"),
        (&cut, "EOF"),
        (&twice, "instance a"),
        (&newer, "state/2"),
        (&unknown, "colour"),
        (&nonsense, "walking"),
    ] {
        fs::write(&state.path, text).unwrap();
        let error = state.read().unwrap_err().to_string();
        for word in [says, "state.json", "is damaged", "left as it is"] {
            assert!(error.contains(word), "{word:?} is missing: {error}");
        }
        assert_eq!(fs::read_to_string(&state.path).unwrap(), text);
    }
}

#[test]
fn a_failed_write_leaves_the_old_state() {
    let directory = tempfile::tempdir().unwrap();
    let state = file(directory.path());
    let before = inventory(&["a".into()], 0, 0);
    state.write(&before).unwrap();
    // A directory in the place of the temporary file: it cannot be opened.
    fs::create_dir(directory.path().join(".state.json.tmp")).unwrap();
    let error = state.write(&Holdings::default()).unwrap_err().to_string();
    assert!(error.contains("state.json"), "{error}");
    assert_eq!(state.read().unwrap(), Some(before));
}

/// Each write makes a new inode, so the inodes that a watcher sees count the writes.
#[tokio::test]
async fn many_changes_are_few_writes_and_all_are_there_at_the_end() {
    use std::os::unix::fs::MetadataExt as _;

    let directory = tempfile::tempdir().unwrap();
    let state = file(directory.path());
    let cloud = Cloud::new(CloudConfig::new().unwrap());
    let keeper = Keeper::new(state.clone(), cloud.clone(), Duration::from_mins(1));
    keeper.write().await.unwrap();
    let first = fs::metadata(&state.path).unwrap().ino();
    let stop = CancellationToken::new();
    let changing = async {
        for index in 0..2_000 {
            let name = format!("node-{index}").parse().unwrap();
            cloud.create(InstanceSpec::named(name)).unwrap();
            if index % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(
            fs::metadata(&state.path).unwrap().ino(),
            first,
            "the interval has not passed"
        );
        stop.cancel();
    };
    let (kept, ()) = tokio::join!(keeper.run(stop.clone()), changing);
    kept.unwrap();
    assert_eq!(state.read().unwrap().unwrap().instances.iter().len(), 2_000);
}
