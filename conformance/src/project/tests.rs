//! Names, texts and files of projects.

use std::{collections::BTreeSet, fs, path::Path};

use clap::ValueEnum as _;

use super::{File, Language, Name};
use crate::inputs::Inputs;

/// A path whose text is special in each manifest.
const ODD: &str = "/sdk of \"my-cloud\"/a\\b%";

fn name() -> Name {
    "acme-2".parse().unwrap()
}

fn text(language: Language, sdk: Option<&str>, path: &str) -> String {
    let files = language.project(&name(), sdk);
    files
        .into_iter()
        .find(|file| file.path == path)
        .unwrap()
        .text
}

#[test]
fn names_are_those_that_a_handshake_a_domain_and_a_package_may_have() {
    for legal in ["a", "1and1", "my-cloud", "a--b", &"a".repeat(63)] {
        assert!(legal.parse::<Name>().is_ok(), "{legal}");
    }
    for illegal in [
        "",
        "My-Cloud",
        "my_cloud",
        "my.cloud",
        "-a",
        "a-",
        "..",
        "ä",
        &"a".repeat(64),
    ] {
        assert!(illegal.parse::<Name>().is_err(), "{illegal}");
    }
}

#[test]
fn project_has_its_own_name_and_no_mark_of_a_template() {
    for language in Language::value_variants() {
        for File { path, text } in language.project(&name(), None) {
            for rest in ["my-cloud", "my_cloud"] {
                assert!(
                    !path.contains(rest) && !text.contains(rest),
                    "{language:?}: {path}: {rest}"
                );
            }
            let mark = text.split('@').find(|part| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase())
            });
            assert_eq!(mark, None, "{language:?}: {path}");
        }
        let manifest = text(*language, None, language.template().files[0].0);
        assert!(manifest.contains("provider-acme-2") && manifest.contains(super::VERSION));
    }
}

#[test]
fn inputs_are_read_and_are_about_the_provider() {
    for language in Language::value_variants() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inputs.yaml");
        fs::write(&path, text(*language, None, "inputs.yaml")).unwrap();
        let inputs = Inputs::read(&path).unwrap();
        assert!(!inputs.provider.command.is_empty());
        assert_eq!(inputs.instances.existing[0].provider_id, "acme-2://node-1");
    }
}

#[test]
fn path_of_an_sdk_stays_as_it_is_in_each_manifest() {
    let manifest = |language: Language| text(language, Some(ODD), language.template().files[0].0);
    let quoted = r#""/sdk of \"my-cloud\"/a\\b%""#;
    assert!(
        manifest(Language::Rust)
            .contains(&format!("outrigger-provider-sdk = {{ path = {quoted} }}"))
    );
    assert!(
        manifest(Language::Go).contains(&format!("replace outrigger.dev/adapters/go => {quoted}"))
    );
    let python = r#"["outrigger-provider @ file:///sdk%20of%20%22my-cloud%22/a%5Cb%25"]"#;
    assert!(manifest(Language::Python).contains(python));
    let package: serde_json::Value = serde_json::from_str(&manifest(Language::Typescript)).unwrap();
    assert_eq!(
        package["dependencies"]["@outrigger/provider"],
        format!("file:{ODD}")
    );
}

#[test]
fn each_template_is_in_a_project() {
    fn check(folder: &Path, texts: &BTreeSet<&str>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path, texts);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                assert!(
                    texts.contains(&*text),
                    "{} is in no project",
                    path.display()
                );
            }
        }
    }
    let mut texts = BTreeSet::new();
    for language in Language::value_variants() {
        let files = super::SHARED.iter().chain(language.template().files);
        let paths: BTreeSet<_> = files.clone().map(|(path, _)| path).collect();
        assert_eq!(
            paths.len(),
            files.clone().count(),
            "{language:?} has a file twice"
        );
        texts.extend(files.map(|(_, text)| *text));
    }
    check(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/templates")),
        &texts,
    );
}
