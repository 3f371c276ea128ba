//! The project of a new provider: its files, made from `conformance/templates` with the provider's name.

mod templates;
#[cfg(test)]
mod tests;

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
