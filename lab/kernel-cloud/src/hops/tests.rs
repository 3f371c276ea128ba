use super::*;

const ONE: u32 = MARK + 1;

fn hops(hops: &[(&str, u32)]) -> BTreeMap<IpAddr, u32> {
    hops.iter()
        .map(|(address, mark)| (address.parse().unwrap(), *mark))
        .collect()
}

#[test]
fn a_route_that_went_with_its_link_is_made_again_and_nothing_else() {
    let observed = Observed {
        rules: BTreeSet::from([(Family::V6, ONE)]),
        routes: BTreeMap::new(),
    };
    assert_eq!(
        changes(&hops(&[("fd00::1", ONE)]), &observed),
        ["-6 route replace default via fd00::1 table 1330774017 proto 201 metric 1000"]
    );
}

#[test]
fn rules_and_routes_of_others_are_no_marks() {
    for (text, expected) in [
        ("0x4f520001", Some(ONE)),
        ("1330774017", Some(ONE)),
        ("0x1", None),
        ("main", None),
        ("", None),
        ("0x4f530001", None),
    ] {
        assert_eq!(mark(text), expected, "{text}");
    }
}
