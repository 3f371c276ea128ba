//! Folders that are written or refused, and paths of SDKs.

use std::fs;

use super::New;
use crate::project::Language;

#[test]
fn folder_that_holds_something_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("README.md"), "mine").unwrap();
    let error = new(folder.path()).run().unwrap_err().to_string();
    assert!(
        error.ends_with("is not empty: name another folder with --output"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("README.md")).unwrap(),
        "mine"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn folder_is_made_and_has_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("deep/acme");
    new(&output).run().unwrap();
    let main = fs::read_to_string(output.join("src/provider_acme/main.py")).unwrap();
    assert!(main.contains("\"acme\""));
    assert!(output.join(".github/workflows/conformance.yml").is_file());
}

#[test]
fn sdk_is_a_folder_of_its_language_or_a_package() {
    let folder = tempfile::tempdir().unwrap();
    let at = |language, path: &str| super::sdk_at(language, &folder.path().join(path));
    let error = at(Language::Go, "").unwrap_err().to_string();
    assert!(
        error.ends_with("it has no go.mod: name the folder of the SDK for Go"),
        "{error}"
    );
    assert!(at(Language::Go, "missing").is_err());
    fs::write(folder.path().join("go.mod"), "").unwrap();
    assert!(at(Language::Go, "").is_ok());
    for package in ["sdk.whl", "sdk.tgz"] {
        fs::write(folder.path().join(package), "").unwrap();
    }
    assert!(at(Language::Python, "sdk.whl").is_ok());
    assert!(at(Language::Python, "sdk.tgz").is_err());
    assert!(at(Language::Rust, "sdk.tgz").is_err());
    assert!(at(Language::Typescript, "sdk.tgz").is_ok());
    let error = at(Language::Java, "").unwrap_err().to_string();
    assert!(error.contains("run `mvn install` there"), "{error}");
}

fn new(output: &std::path::Path) -> New {
    New {
        language: Language::Python,
        name: "acme".parse().unwrap(),
        output: Some(output.to_owned()),
        sdk: None,
    }
}
