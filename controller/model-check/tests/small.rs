//! Each model with an edit and one other fault, as far as some seconds reach. Whole scopes, which take minutes:
//! `cargo run --release -p outrigger-model-check -- --help`.

use outrigger_model_check::{Scope, check};

/// States of each search.
const STATES: usize = 5_000;

const EDIT: Scope = Scope {
    edits: 1,
    ..Scope::of_each(0)
};

#[expect(clippy::unwrap_used, reason = "a part of each test")]
fn keeps_its_promises(model: &str) {
    let scopes = [
        Scope { crashes: 1, ..EDIT },
        Scope {
            lost_answers: 1,
            ..EDIT
        },
        Scope {
            stale_reads: 1,
            ..EDIT
        },
        Scope {
            leader_changes: 1,
            ..EDIT
        },
    ];
    for scope in scopes {
        let report = check(model, scope, STATES).unwrap();
        println!("{report}");
        assert!(report.states > 500, "{report}\n{scope:?}");
        assert!(report.fault.is_none(), "{report}\n{scope:?}");
    }
}

#[test]
fn services() {
    keeps_its_promises("services");
}

#[test]
fn nodes() {
    keeps_its_promises("nodes");
}

#[test]
fn pod_cidrs() {
    keeps_its_promises("pod-cidrs");
}

#[test]
fn routes() {
    keeps_its_promises("routes");
}

#[test]
fn lease() {
    keeps_its_promises("lease");
}

#[test]
fn an_unknown_model_is_none() {
    assert!(check("others", EDIT, STATES).is_none());
}
