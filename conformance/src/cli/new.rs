//! `provider-conformance new`.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;

use super::print;
use crate::project::{Language, Name};

#[derive(Debug, Args)]
pub(super) struct New {
    /// The language of the provider
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    language: Language,

    /// The name of the provider, and the scheme of its provider IDs: 1 to 63 of a-z, 0-9 and '-'
    name: Name,

    /// The folder that is made; one that is there must be empty [default: NAME]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Use this SDK instead of the released one: the folder of its sources, or the .whl or .tgz of its package
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
}

impl New {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let folder = self.output.unwrap_or_else(|| self.name.as_str().into());
        let sdk = self.sdk.as_deref();
        let place = sdk.map(|path| sdk_at(self.language, path)).transpose()?;
        if let Ok(mut entries) = fs::read_dir(&folder)
            && entries.next().is_some()
        {
            bail!(
                "{} is not empty: name another folder with --output",
                folder.display()
            );
        }
        let mut text = format!("{} for {}:\n", folder.display(), self.language.title());
        if let Some(archive) = sdk.filter(|_| self.language == Language::Typescript) {
            copy(archive, &folder.join(SDK))?;
        }
        for file in self.language.project(&self.name, place.as_deref()) {
            let path = folder.join(&file.path);
            write(&path, &file.text).with_context(|| format!("cannot write {}", path.display()))?;
            writeln!(text, "  {}", file.path)?;
        }
        writeln!(text, "Next, in it:\n  {}", self.language.build())?;
        writeln!(text, "  provider-conformance run --inputs inputs.yaml")?;
        print(&text)
    }
}

/// The archive of an SDK in its project, which images and CI build elsewhere.
const SDK: &str = "sdk.tgz";

fn copy(archive: &Path, to: &Path) -> anyhow::Result<()> {
    let at = || {
        format!(
            "--sdk {}: npm takes the .tgz of `npm pack`",
            archive.display()
        )
    };
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(archive, to).with_context(at)?;
    Ok(())
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text)
}

/// The path of an SDK for a manifest: absolute, unless it is copied into the project.
fn sdk_at(language: Language, path: &Path) -> anyhow::Result<String> {
    let at = || format!("--sdk {}", path.display());
    if language == Language::Typescript {
        return Ok(SDK.to_owned());
    }
    if language == Language::Java {
        bail!(
            "{}: Maven finds the SDK in its repositories only: run `mvn install` there, and leave --sdk out",
            at()
        );
    }
    let whole = path.canonicalize().with_context(at)?;
    match whole.into_os_string().into_string() {
        Ok(text) if !text.contains(char::is_control) => Ok(text),
        _ => bail!(
            "{}: a manifest cannot hold this path: move the SDK to one of plain letters",
            at()
        ),
    }
}

#[cfg(test)]
mod tests {
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
    fn sdk_is_there_and_not_of_java() {
        let folder = tempfile::tempdir().unwrap();
        let at = |language, path: &str| super::sdk_at(language, &folder.path().join(path));
        assert!(at(Language::Go, "missing").is_err());
        assert!(at(Language::Go, "").is_ok());
        let error = at(Language::Java, "").unwrap_err().to_string();
        assert!(error.contains("run `mvn install` there"), "{error}");
    }

    #[test]
    fn archive_for_npm_is_part_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let (archive, output) = (folder.path().join("a.tgz"), folder.path().join("acme"));
        let make = || New {
            language: Language::Typescript,
            sdk: Some(archive.clone()),
            ..new(&output)
        };
        assert!(make().run().is_err());
        fs::write(&archive, "SDK").unwrap();
        make().run().unwrap();
        let manifest = fs::read_to_string(output.join("package.json")).unwrap();
        assert!(manifest.contains("\"file:sdk.tgz\""), "{manifest}");
        assert_eq!(fs::read_to_string(output.join("sdk.tgz")).unwrap(), "SDK");
    }

    fn new(output: &std::path::Path) -> New {
        New {
            language: Language::Python,
            name: "acme".parse().unwrap(),
            output: Some(output.to_owned()),
            sdk: None,
        }
    }
}
