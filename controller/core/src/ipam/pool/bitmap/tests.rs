use proptest::{collection::vec, prelude::*};

use super::{Bitmap, PAGE};

/// I-12: however full the map is, a search looks at two words of each level at most.
#[test]
fn words_visited_in_a_search_grow_with_the_levels_alone() {
    // IPv4: a /8 with /24s, and a /0 with /32s.
    for (bits, levels) in [(16_u32, 3), (32, 6)] {
        let len = 1_u64 << bits;
        let mut map = Bitmap::new(len);
        assert_eq!(map.levels.len(), levels);
        let full = len.min(1 << 20);
        let steps = (0..full - 1).step_by(997);
        map.put(0..=full - 1, true);
        for zero in steps.chain([full - 1]) {
            map.put(zero..=zero, false);
            let mut visited = 0;
            let first_zero = map.search(zero / 2, |level, at| {
                visited += 1;
                map.word(level, at)
            });
            assert_eq!(first_zero, Some(zero));
            assert!(visited < 2 * levels, "{visited} words for {zero} of {len}");
            map.put(zero..=zero, true);
        }
    }
}

#[test]
fn only_pages_with_a_one_are_allocated() {
    let mut map = Bitmap::new(1 << 32);
    let pages = |map: &Bitmap| map.levels.iter().flatten().flatten().count();
    assert_eq!((map.next_zero(7), pages(&map)), (Some(7), 0));
    map.put(0..=1 << 20, false);
    assert_eq!(pages(&map), 0);
    for one in [0, 1 << 31, (1 << 32) - 1] {
        map.put(one..=one, true);
    }
    assert_eq!((map.ones(), pages(&map)), (3, 3));
    // A bit for each of them, in one page of which 32,768 make use.
    let mut map = Bitmap::new(1 << 16);
    map.put(0..=(1 << 16) - 1, true);
    assert_eq!(pages(&map), 2 + 1 + 1);
    assert_eq!(PAGE * 64, 1 << 15);
}

proptest! {
    #[test]
    fn ones_and_zeros_are_those_of_a_set(
        bits in 0_u32..=13,
        changes in vec((any::<u64>(), 0_u64..200, any::<bool>(), any::<u64>()), 1..20),
    ) {
        let len = 1_u64 << bits;
        let mut map = Bitmap::new(len);
        let mut model = vec![false; len as usize];
        for (start, more, one, from) in changes {
            let (start, from) = (start % len, from % len);
            let range = start..=(start + more).min(len - 1);
            let place = start as usize..=*range.end() as usize;
            let ones = |model: &[bool]| model.iter().filter(|bit| **bit).count() as u64;
            prop_assert_eq!(map.ones_in(&range), ones(&model[place.clone()]));
            model[place].fill(one);
            map.put(range, one);
            prop_assert_eq!(map.ones(), ones(&model));
            let zero = model[from as usize..].iter().position(|bit| !bit);
            prop_assert_eq!(map.next_zero(from), zero.map(|zero| from + zero as u64));
        }
        prop_assert_eq!(map.next_zero(len), None);
    }
}
