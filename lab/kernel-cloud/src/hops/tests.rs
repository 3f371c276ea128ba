use super::*;

const ONE: u32 = MARK + 1;

fn hops(hops: &[(&str, u32)]) -> BTreeMap<IpAddr, u32> {
    hops.iter()
        .map(|(address, mark)| (address.parse().unwrap(), *mark))
        .collect()
}

#[test]
fn a_next_hop_has_a_rule_and_two_routes_and_one_that_is_there_needs_nothing() {
    let desired = hops(&[("10.0.0.1", ONE)]);
    let made = changes(&desired, &Observed::default());
    assert_eq!(
        made,
        [
            "-4 route replace unreachable default table 1330774017 proto 201 metric 2000",
            "-4 rule add fwmark 0x4f520001 lookup 1330774017 priority 21320 protocol 201",
            "-4 route replace default via 10.0.0.1 table 1330774017 proto 201 metric 1000",
        ]
    );
    let observed = Observed {
        rules: BTreeSet::from([(Family::V4, ONE)]),
        routes: BTreeMap::from([((Family::V4, ONE), "10.0.0.1".parse().unwrap())]),
    };
    assert_eq!(changes(&desired, &observed), <[String; 0]>::default());
    assert_eq!(
        changes(&BTreeMap::new(), &observed),
        [
            "-4 rule delete fwmark 0x4f520001 lookup 1330774017 priority 21320",
            "-4 route flush table 1330774017",
        ]
    );
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
