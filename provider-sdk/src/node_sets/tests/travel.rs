//! Uploads that lose, repeat and reorder their parts on the way.

use super::*;

/// The fate of an upload on its way.
#[derive(Clone, Debug)]
enum Way {
    Whole,
    /// Cut off after so many parts: cancelled, or the connection was lost.
    Cut(usize),
    /// This part never comes.
    Lost(usize),
    /// This part comes twice.
    Twice(usize),
    /// One part is lost, another comes twice.
    LostAndTwice(usize, usize),
    /// The whole upload is repeated, as after a lost reply.
    Repeated,
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        4 => Just(Way::Whole),
        1 => any::<usize>().prop_map(Way::Cut),
        1 => any::<usize>().prop_map(Way::Lost),
        1 => any::<usize>().prop_map(Way::Twice),
        1 => any::<(usize, usize)>().prop_map(|(lost, twice)| Way::LostAndTwice(lost, twice)),
        1 => Just(Way::Repeated),
    ]
}

fn travel(mut parts: Vec<Part>, way: &Way) -> Vec<Part> {
    let count = parts.len();
    match *way {
        Way::Whole | Way::Repeated => {}
        Way::Cut(at) => parts.truncate(at % count),
        Way::Lost(at) => {
            parts.remove(at % count);
        }
        Way::Twice(at) => parts.insert(at % count, parts[at % count].clone()),
        Way::LostAndTwice(lost, twice) => {
            let again = parts[twice % count].clone();
            parts.insert(twice % count, again);
            parts.remove(lost % (count + 1));
        }
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is sent, from whatever base, and however it is mangled: what a reference resolves to
    /// is what its sender meant, and a snapshot always helps.
    #[test]
    fn a_set_equals_its_senders_or_the_call_is_refused(
        steps in proptest::collection::vec(
            (
                proptest::collection::btree_map("[a-f]", "[0-2]", 0..6),
                proptest::option::of(0_usize..4),
                1_usize..3,
                way(),
            ),
            1..24,
        )
    ) {
        let sets = NodeSets::new(1);
        let mut sent: Vec<Content> = vec![Content::new()];
        for (wanted, base, size, way) in steps {
            // A delta is made from any of the latest contents, held there or not.
            let base = base.map(|back| sent[sent.len().saturating_sub(back + 1)].clone());
            let (begin, parts) = parts(base.as_ref(), &wanted, size);
            let parts = travel(parts, &way);
            let mut synced = upload(&sets, begin.clone(), &parts);
            if matches!(way, Way::Repeated) {
                let again = upload(&sets, begin, &parts);
                // The first made the base too old to be held.
                let is_late = matches!(&again, Err(error)
                    if error.reason() == Some(ErrorReason::NodeSetBaseMismatch));
                prop_assert!(synced.is_err() || again.is_ok() || is_late);
                synced = synced.or(again);
            }
            sent.push(wanted.clone());
            for content_sent in &sent {
                if let Ok(held) = resolve(&sets, &revision(content_sent)) {
                    prop_assert_eq!(&content(&held), content_sent);
                }
            }
            if synced.is_err() {
                sync(&sets, None, &wanted, size).unwrap();
            }
            prop_assert!(resolve(&sets, &revision(&wanted)).is_ok());
        }
    }
}
