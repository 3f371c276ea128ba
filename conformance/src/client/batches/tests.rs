use outrigger_api::{RpcStatus, v1::Absent};

use super::*;

fn judge(keys: &[&str], results: Vec<InstanceResult>) -> Verdict<usize> {
    let keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
    one_each(&keys, results).map(|answered| answered.len())
}

#[test]
fn each_item_has_one_result_with_an_outcome_in_any_order() {
    let absent =
        |key: &str| InstanceResult::new(key.to_owned(), Outcome::Absent(Absent::default()));
    let failed =
        |key: &str| InstanceResult::new(key.to_owned(), Outcome::Error(RpcStatus::default()));
    let empty = InstanceResult {
        key: "a".to_owned(),
        ..InstanceResult::default()
    };
    assert_eq!(judge(&["a", "b"], vec![failed("b"), absent("a")]), Ok(2));
    for wrong in [
        vec![absent("a")],
        vec![absent("a"), absent("b"), failed("b")],
        vec![absent("a"), absent("b"), absent("c")],
        vec![empty, absent("b")],
    ] {
        assert!(judge(&["a", "b"], wrong.clone()).is_err(), "{wrong:?}");
    }
}
