use super::*;
use crate::instances::Address;

const CLUSTER: &str = "c-1";

fn wanted(destination: &str, node: &str) -> RouteSpec {
    RouteSpec {
        name: String::new(),
        cluster: CLUSTER.to_owned(),
        destination: destination.parse().unwrap(),
        target: RouteTarget {
            node: node.to_owned(),
            provider_id: format!("mock://{node}"),
            next_hop: Some([10, 0, 0, 1].into()),
            addresses: vec![Address::internal([10, 0, 0, 1].into())],
        },
    }
}

fn create(table: &mut RouteTable, spec: &RouteSpec) -> Result<String, RouteRefused> {
    let made = table.create(spec.clone(), Some(3), Timestamp::UNIX_EPOCH)?;
    Ok(made.name.clone())
}

fn names(table: &RouteTable) -> Vec<&str> {
    table.iter().map(|route| route.name.as_str()).collect()
}

/// RTE-01, RTE-07.
#[test]
fn a_route_is_made_once() {
    let mut table = RouteTable::default();
    let first = create(&mut table, &wanted("10.1.0.0/24", "n-1")).unwrap();
    let again = create(&mut table, &wanted("10.1.0.0/24", "n-1")).unwrap();
    assert_eq!(first, again);
    // The addresses besides the next hop are no other target.
    let mut more = wanted("10.1.0.0/24", "n-1");
    more.target.addresses.clear();
    assert_eq!(create(&mut table, &more).unwrap(), first);
    assert_eq!(table.iter().len(), 1);
    let other = create(&mut table, &wanted("10.1.1.0/24", "n-1")).unwrap();
    assert_ne!(first, other, "two destinations of one node");
}

/// RTE-05.
#[test]
fn a_destination_that_leads_elsewhere_is_not_taken_over() {
    let other_node = wanted("10.1.0.0/24", "n-2");
    let other_cluster = RouteSpec {
        cluster: "c-2".to_owned(),
        ..wanted("10.1.0.0/24", "n-1")
    };
    let mut other_hop = wanted("10.1.0.0/24", "n-1");
    other_hop.target.next_hop = Some([10, 0, 0, 2].into());
    let mut other_machine = wanted("10.1.0.0/24", "n-1");
    other_machine.target.provider_id = "mock://replaced".to_owned();
    for refused in [other_node, other_cluster, other_hop, other_machine] {
        let mut table = RouteTable::default();
        let name = create(&mut table, &wanted("10.1.0.0/24", "n-1")).unwrap();
        let taken = create(&mut table, &refused).unwrap_err();
        let destination = refused.destination;
        let kept_name = name.clone();
        assert_eq!(taken, RouteRefused::Taken { destination, name });
        assert_eq!(names(&table), [kept_name]);
    }
    // Nor one that leads nowhere: it is deleted first.
    let mut table = RouteTable::default();
    let name = create(&mut table, &wanted("10.1.0.0/24", "n-1")).unwrap();
    let mut dead = Route::clone(table.by_name(&name).unwrap());
    dead.blackhole = true;
    table.replace(dead).unwrap();
    create(&mut table, &wanted("10.1.0.0/24", "n-1")).unwrap_err();
}

/// RTE-06.
#[test]
fn a_full_table_takes_no_more() {
    let mut table = RouteTable::default();
    for subnet in 0..3 {
        create(&mut table, &wanted(&format!("10.1.{subnet}.0/24"), "n-1")).unwrap();
    }
    let full = create(&mut table, &wanted("10.1.3.0/24", "n-1")).unwrap_err();
    assert_eq!(full, RouteRefused::Full(3));
    create(&mut table, &wanted("10.1.0.0/24", "n-1")).unwrap();
    let gone = wanted("10.1.0.0/24", "n-1");
    assert!(table.delete(&gone, false).unwrap().is_some());
    create(&mut table, &wanted("10.1.3.0/24", "n-1")).unwrap();
}

/// RTE-10.
#[test]
fn a_route_is_removed_by_its_name_or_its_target() {
    let by_target = wanted("10.1.0.0/24", "n-1");
    let mut by_node = by_target.clone();
    by_node.target = RouteTarget {
        node: "n-1".to_owned(),
        ..RouteTarget::default()
    };
    let mut by_destination = by_target.clone();
    by_destination.target = RouteTarget::default();
    let mut other_node = by_target.clone();
    other_node.target.node = "n-2".to_owned();
    let mut other_machine = by_target.clone();
    other_machine.target.provider_id = "mock://replaced".to_owned();
    for (unwanted, goes) in [
        (&by_target, true),
        (&by_node, true),
        (&by_destination, true),
        (&other_node, false),
        (&other_machine, false),
    ] {
        let mut table = RouteTable::default();
        create(&mut table, &by_target).unwrap();
        let gone = table.delete(unwanted, false).unwrap();
        assert_eq!(gone.is_some(), goes, "{unwanted:?}");
        assert_eq!(table.iter().len() == 0, goes);
        assert_eq!(table.delete(unwanted, false), Ok(None), "again");
    }
    let mut table = RouteTable::default();
    let name = create(&mut table, &by_target).unwrap();
    for (name, destination, goes) in [
        ("r-another", "10.1.0.0/24", false),
        (name.as_str(), "10.2.0.0/24", false),
        (name.as_str(), "10.1.0.7/24", true),
    ] {
        let named = RouteSpec {
            name: name.to_owned(),
            destination: destination.parse().unwrap(),
            ..by_destination.clone()
        };
        let gone = table.delete(&named, false).unwrap();
        assert_eq!(gone.is_some(), goes, "{name} to {destination}");
    }
}

#[test]
fn routes_of_others_stay() {
    let mut table = RouteTable::default();
    let mut foreign = |name: &str, cluster: Option<&str>| {
        let route = Route {
            name: name.to_owned(),
            cluster: cluster.map(str::to_owned),
            destination: "10.1.0.0/24".parse().unwrap(),
            target: RouteTarget::default(),
            blackhole: false,
            created_at: Timestamp::UNIX_EPOCH,
        };
        table.insert(route).unwrap();
    };
    foreign("theirs", Some("c-2"));
    foreign("untagged", None);
    let named = |name: &str| RouteSpec {
        name: name.to_owned(),
        ..wanted("10.1.0.0/24", "")
    };
    let refused = |name: &str| Err(RouteRefused::Foreign(name.to_owned()));
    assert_eq!(table.delete(&named("theirs"), true), refused("theirs"));
    assert_eq!(table.delete(&named("untagged"), false), refused("untagged"));
    let mut nameless = named("");
    nameless.target = RouteTarget::default();
    assert_eq!(table.delete(&nameless, false), Ok(None));
    assert!(table.delete(&named("untagged"), true).unwrap().is_some());
    assert_eq!(names(&table), ["theirs"]);
}

/// A table and a plain list of routes agree, whatever is put in, replaced and removed.
#[test]
fn the_indexes_agree() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut table = RouteTable::default();
    let mut plain: Vec<Route> = Vec::new();
    for _ in 0..2_000 {
        let name = format!("r-{}", random.u8(0..12));
        let destination = format!("10.1.{}.{}/24", random.u8(0..4), random.u8(0..2));
        let route = Route {
            name: name.clone(),
            cluster: None,
            destination: destination.parse().unwrap(),
            target: RouteTarget::default(),
            blackhole: random.bool(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let index = plain.iter().position(|one| one.name == name);
        match (random.u8(0..3), index) {
            (0, None) => plain.push(table.insert(route).unwrap().as_ref().clone()),
            (0, Some(_)) => drop(table.insert(route).unwrap_err()),
            (1, Some(at)) => plain[at] = table.replace(route).unwrap().as_ref().clone(),
            (1, None) => drop(table.replace(route).unwrap_err()),
            (_, index) => {
                let removed = index.map(|at| plain.swap_remove(at));
                assert_eq!(table.remove(&name).as_deref(), removed.as_ref());
            }
        }
        plain.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(table.iter().map(AsRef::as_ref).eq(&plain));
        let to = destination.parse::<Cidr>().unwrap();
        let same = plain
            .iter()
            .filter(|one| one.destination.network() == to.network());
        assert!(table.to(to).map(AsRef::as_ref).eq(same));
    }
    let restored = RouteTable::restore(plain.clone()).unwrap();
    assert_eq!(restored, table);
    let twice = [plain.clone(), plain].concat();
    assert!(RouteTable::restore(twice).is_err());
}
