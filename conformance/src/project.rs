//! The project of a new provider: its files, made from `conformance/templates` with the provider's name.

mod templates;

use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::templates::{GO, JAVA, PYTHON, RUST, SHARED, TYPESCRIPT, Template};

/// The version of this program, and of the SDKs, which are released with it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const GO_MODULE: &str = "outrigger.dev/adapters/go";

/// The name that the templates have.
const TEMPLATE_NAME: &str = "my-cloud";

/// All but the characters that a path has in a URL as they are.
const IN_PATH: AsciiSet = NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');

/// A language that has an SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// The crate `outrigger-provider-sdk`.
    Rust,
    /// The module `outrigger.dev/adapters/go`.
    Go,
    /// The distribution `outrigger-provider`.
    Python,
    /// The package `@outrigger/provider`.
    Typescript,
    /// The artifact `dev.outrigger:provider`.
    Java,
}

/// The name of a provider, and the scheme of its provider IDs: `[a-z0-9-]{1,63}`. A letter or digit is at both ends,
/// since the name is also part of a domain and of a package's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// A file of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// From the folder of the project.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let has_hyphen_at_end = text.starts_with('-') || text.ends_with('-');
        if (1..=63).contains(&text.len()) && text.bytes().all(legal) && !has_hyphen_at_end {
            Ok(Self(text.to_owned()))
        } else {
            let rule =
                "the name of a provider is 1 to 63 of a-z, 0-9 and '-', with no '-' at its ends";
            Err(rule.to_owned())
        }
    }
}

impl Name {
    /// `text` of a template, for this name instead of `my-cloud`.
    /// It as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn put_into(&self, text: &str) -> String {
        text.replace(TEMPLATE_NAME, &self.0)
            .replace(&TEMPLATE_NAME.replace('-', "_"), &self.0.replace('-', "_"))
    }
}

impl Language {
    const fn template(self) -> &'static Template {
        match self {
            Self::Rust => &RUST,
            Self::Go => &GO,
            Self::Python => &PYTHON,
            Self::Typescript => &TYPESCRIPT,
            Self::Java => &JAVA,
        }
    }

    /// The name of the language.
    pub const fn title(self) -> &'static str {
        self.template().title
    }

    /// The shell command that builds a project, in its folder.
    pub const fn build(self) -> &'static str {
        self.template().build
    }

    /// All files of the project of a provider. It depends on the SDK at `sdk`, an absolute path, or else on the released one
    /// of this version.
    pub fn project(self, name: &Name, sdk: Option<&str>) -> Vec<File> {
        let template = self.template();
        let sdk = self.dependency(sdk);
        let fill = |text: &str| {
            let text = text
                .replace("@LANGUAGE@", template.title)
                .replace("@GUIDE@", &template.title.to_lowercase())
                .replace("@SETUP@", template.setup)
                .replace("@BUILD@", template.build)
                .replace("@CHECK@", template.check)
                .replace("@COMMAND@", template.command)
                .replace("@LOG@", template.log_level)
                .replace("@VERSION@", VERSION);
            // Last: a path may have any text.
            name.put_into(&text).replace("@SDK@", &sdk)
        };
        let all = SHARED.iter().chain(template.files);
        all.map(|(path, text)| File {
            path: name.put_into(path),
            text: fill(text),
        })
        .collect()
    }

    /// The text of a manifest about the SDK.
    fn dependency(self, path: Option<&str>) -> String {
        // The strings of JSON are also those of TOML and go.mod.
        let quoted = |text: String| serde_json::Value::String(text).to_string();
        match (self, path) {
            (Self::Rust | Self::Typescript, None) => quoted(VERSION.to_owned()),
            (Self::Go, None) => format!("require {GO_MODULE} v{VERSION}"),
            (Self::Python, None) => quoted(format!("outrigger-provider=={VERSION}")),
            (Self::Rust, Some(path)) => format!("{{ path = {} }}", quoted(path.to_owned())),
            (Self::Go, Some(path)) => {
                let path = quoted(path.to_owned());
                format!("require {GO_MODULE} v{VERSION}\n\nreplace {GO_MODULE} => {path}")
            }
            (Self::Python, Some(path)) => {
                let path = utf8_percent_encode(path, &IN_PATH);
                quoted(format!("outrigger-provider @ file://{path}"))
            }
            (Self::Typescript, Some(path)) => quoted(format!("file:{path}")),
            // Maven finds it in its repositories only, the local one first.
            (Self::Java, _) => VERSION.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
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
        let manifest =
            |language: Language| text(language, Some(ODD), language.template().files[0].0);
        let quoted = r#""/sdk of \"my-cloud\"/a\\b%""#;
        assert!(
            manifest(Language::Rust)
                .contains(&format!("outrigger-provider-sdk = {{ path = {quoted} }}"))
        );
        assert!(
            manifest(Language::Go)
                .contains(&format!("replace outrigger.dev/adapters/go => {quoted}"))
        );
        let python = r#"["outrigger-provider @ file:///sdk%20of%20%22my-cloud%22/a%5Cb%25"]"#;
        assert!(manifest(Language::Python).contains(python));
        let package: serde_json::Value =
            serde_json::from_str(&manifest(Language::Typescript)).unwrap();
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
}
