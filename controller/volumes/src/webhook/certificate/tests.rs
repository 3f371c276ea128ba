use super::*;

const START: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn own() -> Vec<String> {
    names(&["webhook.kube-system.svc"])
}

fn first() -> Contents {
    plan(None, &own(), None, at(0)).unwrap().unwrap()
}

/// True if a client with `bundle` accepts `pem` at that time.
fn accepts(bundle: &str, pem: &Pem, seconds: i64) -> bool {
    Usable::of(pem, bundle, at(seconds)).is_some()
}

fn count(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

#[test]
fn the_first_certificate_is_served_at_once_and_stays_for_long() {
    let contents = first();
    assert!(contents.next.is_none());
    assert!(accepts(&contents.bundle, &contents.current, 0));
    // The clock of a client may be behind.
    assert!(accepts(&contents.bundle, &contents.current, -3000));
    for day in [0, 1, 200, 243] {
        for trusted in [None, Some(""), Some(&*contents.bundle)] {
            let planned = plan(Some(&contents), &own(), trusted, at(day * DAY)).unwrap();
            assert!(planned.is_none(), "day {day}");
        }
    }
}

#[test]
fn a_next_certificate_is_served_once_its_ca_is_trusted() {
    let old = first();
    let made = 244 * DAY;
    let both = plan(Some(&old), &own(), Some(&old.bundle), at(made));
    let both = both.unwrap().unwrap();
    assert!(both.current == old.current);
    let next = both.next.clone().unwrap();
    assert_eq!(count(&both.bundle), 2);
    assert!(accepts(&both.bundle, &old.current, made) && accepts(&both.bundle, &next, made));
    assert!(!accepts(&old.bundle, &next, made));

    let later = |seconds: i64, trusted| {
        let planned = plan(Some(&both), &own(), trusted, at(made + seconds));
        planned.unwrap()
    };
    let bundle = Some(&*both.bundle);
    assert!(
        later(60, bundle).is_none(),
        "another API server may be late"
    );
    // Its CA is not known, or that cannot be seen.
    let last = 365 * DAY - made - 60;
    for trusted in [None, Some(""), Some(&*old.bundle)] {
        for seconds in [60, 300, DAY, last] {
            assert!(later(seconds, trusted).is_none(), "{seconds}");
        }
    }
    let promoted = later(300, bundle).unwrap();
    assert!(promoted.current == next && promoted.next.is_none());
    // A replica that has not seen it serves the old one.
    assert!(accepts(&promoted.bundle, &old.current, made + 300));
    // Better than one that has expired.
    let expired = 366 * DAY - made;
    for trusted in [None, Some(&*old.bundle)] {
        assert!(later(expired, trusted).unwrap().current == next);
    }
    assert_eq!(end(&old.current), Some(at(365 * DAY)));
}

#[test]
fn a_ca_leaves_the_bundle_when_its_certificate_has_expired() {
    let mut contents = first();
    let mut day = 0;
    let mut most = 0;
    while day < 2_000 {
        for second in [0, 400] {
            let now = day * DAY + second;
            let trusted = Some(&*contents.bundle);
            if let Some(planned) = plan(Some(&contents), &own(), trusted, at(now)).unwrap() {
                contents = planned;
            }
            assert!(
                accepts(&contents.bundle, &contents.current, now),
                "day {day}"
            );
            most = most.max(count(&contents.bundle));
        }
        day += 1;
    }
    assert_eq!(most, 2);
}

#[test]
fn contents_that_cannot_be_used_are_made_anew() {
    let good = first();
    let other = plan(None, &own(), None, at(1)).unwrap().unwrap();
    let spoilt = [
        Contents {
            bundle: String::new(),
            ..good.clone()
        },
        Contents {
            bundle: other.bundle.clone(),
            ..good.clone()
        },
        Contents {
            bundle: "-----BEGIN CERTIFICATE-----\nx".into(),
            ..good.clone()
        },
        Contents {
            current: Pem {
                key: other.current.key.clone(),
                ..good.current.clone()
            },
            ..good.clone()
        },
        Contents {
            current: Pem {
                certificate: "junk".into(),
                ..good.current.clone()
            },
            ..good.clone()
        },
    ];
    for contents in &spoilt {
        let made = plan(Some(contents), &own(), Some(&contents.bundle), at(10))
            .unwrap()
            .unwrap();
        assert!(accepts(&made.bundle, &made.current, 10));
        assert!(made.current != good.current && made.next.is_none());
        let again = plan(Some(&made), &own(), Some(&made.bundle), at(20)).unwrap();
        assert!(again.is_none());
    }
    // CAs that were fine stay, also where nothing is stored and only the configuration has them.
    let made = plan(None, &own(), Some(&good.bundle), at(10));
    let made = made.unwrap().unwrap();
    assert!(accepts(&made.bundle, &made.current, 10) && accepts(&made.bundle, &good.current, 10));
    let made = plan(Some(&spoilt[3]), &own(), None, at(10))
        .unwrap()
        .unwrap();
    assert!(made.bundle.starts_with(&good.bundle));
    let expired = plan(Some(&good), &own(), None, at(400 * DAY))
        .unwrap()
        .unwrap();
    assert_eq!(count(&expired.bundle), 1);
}

#[test]
fn replicas_with_different_names_do_not_undo_each_others_work() {
    let old = first();
    let new = names(&["10.0.0.7", "fd00::7", "hooks.example.org"]);
    let both = plan(Some(&old), &new, Some(&old.bundle), at(DAY))
        .unwrap()
        .unwrap();
    assert!(both.current == old.current);
    let promoted = plan(Some(&both), &new, Some(&both.bundle), at(2 * DAY))
        .unwrap()
        .unwrap();
    for names in [&own(), &new] {
        let planned = plan(Some(&promoted), names, None, at(2 * DAY)).unwrap();
        assert!(planned.is_none());
    }
}
