use super::*;

/// A table with one load balancer, as nftables 1.0.6 prints it.
const LISTING: &str = include_str!("listing.json");

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
