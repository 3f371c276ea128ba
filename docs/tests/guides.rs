//! `docs/guide/rust.md` has the code of the SDK's example `guide`, which is compiled, and which `.ci/run` holds
//! against the contract. `.ci/guides` carries out the guides of the other languages.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{fs, path::Path};

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the file is text")
}

#[test]
fn rust_guide_has_the_code_of_the_example() {
    let guide = text("docs/guide/rust.md");
    for file in ["instances.rs", "balancers.rs", "main.rs"] {
        let code = text(&format!("provider-sdk/examples/guide/{file}"));
        let block = format!("```rust file=src/{file}\n{code}```");
        assert!(
            guide.contains(&block),
            "docs/guide/rust.md has another {file} than provider-sdk/examples/guide: copy it there"
        );
    }
}
