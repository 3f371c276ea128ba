//! The guides show the code that `provider-conformance new` writes: each block ```` ```LANGUAGE from=PATH ```` is a part of that
//! template. `.ci/guides` carries the guides out.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{fs, path::Path};

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the file is text")
}

#[test]
fn guides_show_the_code_of_the_templates() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/templates");
    let entries = fs::read_dir(templates).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    for folder in paths.filter(|path| path.is_dir()) {
        let language = folder.file_name().unwrap_or_default().to_string_lossy();
        let guide = text(&format!("docs/guide/{language}.md"));
        let mut blocks = guide.split(" from=").skip(1).peekable();
        assert!(blocks.peek().is_some(), "{language}.md shows no template");
        for block in blocks {
            let (path, rest) = block.split_once('\n').expect("a block has lines");
            let code = rest.split("```").next().unwrap_or_default();
            assert!(
                text(&format!("conformance/templates/{language}/{path}")).contains(code),
                "docs/guide/{language}.md has another {path} than conformance/templates/{language}: copy it there"
            );
        }
    }
}
