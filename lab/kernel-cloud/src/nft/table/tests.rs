use super::*;

/// A table with one load balancer, as nftables 1.0.6 prints it.
const LISTING: &str = include_str!("listing.json");

#[test]
fn a_listing_is_read_into_load_balancers() {
    let table = Table::parse(LISTING).unwrap();
    let hop = "10.77.1.2".parse().unwrap();
    assert_eq!(table.hops.get(&hop), Some(&(MARK + 1)));
    let key = Key {
        cluster: "cluster-1".to_owned(),
        service: "uid-of-web".to_owned(),
    };
    let balancer = &table.balancers[&key];
    assert_eq!(balancer.name, "default/web");
    assert_eq!(
        balancer
            .addresses
            .values()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["198.51.100.0", "2001:db8:1::"]
    );
    assert_eq!(
        balancer.ports.iter().copied().collect::<Vec<_>>(),
        [(Protocol::Tcp, 80), (Protocol::Udp, 53)]
    );
    let ranges = balancer.source_ranges.as_ref().unwrap();
    assert_eq!(
        ranges.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.200.0.0/16", "192.0.2.1/32"]
    );
    assert_eq!(
        (balancer.affinity, balancer.health_port),
        (Some(30), Some(32_100))
    );
    let target = &balancer.targets[&hop];
    assert_eq!((&*target.node, target.healthy), ("worker-1", true));
    assert_eq!(balancer.targets.len(), 4);
    let other = Key {
        service: "uid-of-other".to_owned(),
        ..key.clone()
    };
    assert_eq!(table.taken(&key).len(), 0);
    assert_eq!(table.taken(&other).len(), 2);
}

#[test]
fn a_new_next_hop_gets_the_first_free_mark_and_the_others_keep_theirs() {
    let table = Table::parse(LISTING).unwrap();
    let held = table.hops.clone();
    let hops = table.hops_for(
        ["10.9.9.9", "10.77.1.2"]
            .map(|ip| ip.parse().unwrap())
            .into_iter(),
    );
    assert!(
        held.iter()
            .all(|(address, mark)| hops.get(address) == Some(mark))
    );
    assert_eq!(hops[&"10.9.9.9".parse::<IpAddr>().unwrap()], MARK + 5);
}

#[test]
fn an_element_of_another_writer_is_an_error_that_shows_it() {
    let foreign = LISTING.replace("cluster-1/uid-of-web\"", "\"");
    let error = Table::parse(&foreign).unwrap_err().to_string();
    assert!(
        error.contains("addresses4") && error.contains("198.51.100.0"),
        "{error}"
    );
    assert!(Table::parse("no JSON").is_err());
}
