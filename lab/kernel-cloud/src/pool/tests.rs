use outrigger_provider_sdk::ErrorReason;

use super::*;

fn pool() -> Pool {
    let ranges = ["198.51.100.0/31", "198.51.100.8/32", "2001:db8::/127"];
    Pool::new(&ranges.map(|range| range.parse().unwrap()))
}

fn set(addresses: &[&str]) -> BTreeSet<IpAddr> {
    addresses
        .iter()
        .map(|address| address.parse().unwrap())
        .collect()
}

fn choose(named: &[&str], held: &[&str], taken: &[&str]) -> Result<Vec<String>, Error> {
    let named: Vec<_> = named
        .iter()
        .map(|address| address.parse().unwrap())
        .collect();
    let held = set(held)
        .into_iter()
        .map(|address| (Family::of(address), address))
        .collect();
    let chosen = pool().addresses(&Family::ALL, &named, &held, &set(taken))?;
    Ok(chosen.values().map(ToString::to_string).collect())
}

#[test]
fn an_address_is_the_named_one_or_the_one_that_is_held_or_the_first_that_is_free() {
    for (named, held, taken, expected) in [
        (&[][..], &[][..], &[][..], ["198.51.100.0", "2001:db8::"]),
        (
            &[],
            &[],
            &["198.51.100.0", "2001:db8::"],
            ["198.51.100.1", "2001:db8::1"],
        ),
        (&[], &["198.51.100.1"], &[], ["198.51.100.1", "2001:db8::"]),
        (
            &["198.51.100.8"],
            &["198.51.100.1"],
            &[],
            ["198.51.100.8", "2001:db8::"],
        ),
        // An address that the pool has lost stays.
        (&[], &["203.0.113.1"], &[], ["203.0.113.1", "2001:db8::"]),
    ] {
        assert_eq!(choose(named, held, taken).unwrap(), expected);
    }
}

#[test]
fn an_address_that_cannot_be_given_is_an_error_that_names_it() {
    let full = ["198.51.100.0", "198.51.100.1", "198.51.100.8"];
    for (named, taken, reason, part) in [
        (
            &["203.0.113.1"][..],
            &[][..],
            ErrorReason::UnsupportedFeature,
            "203.0.113.1",
        ),
        (
            &["198.51.100.1"],
            &["198.51.100.1"],
            ErrorReason::ConflictingResource,
            "198.51.100.1",
        ),
        (&[], &full, ErrorReason::QuotaExceeded, "IPv4"),
    ] {
        let error = choose(named, &[], taken).unwrap_err();
        assert_eq!(error.reason(), Some(reason), "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    let none = Pool::new(&[]).addresses(&[Family::V6], &[], &BTreeMap::new(), &BTreeSet::new());
    assert_eq!(
        none.unwrap_err().reason(),
        Some(ErrorReason::UnsupportedFeature)
    );
}
