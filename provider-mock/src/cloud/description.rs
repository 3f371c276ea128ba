//! A cloud described in YAML.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;
use serde::Deserialize;

use crate::instances::{InstanceId, InstanceSpec};
use crate::volumes::Volume;

/// The instances and volumes that a cloud starts with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// No name and no id twice.
    pub instances: Vec<InstanceSpec>,
    /// No handle twice.
    pub volumes: Vec<Volume>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    instances: Vec<InstanceSpec>,
    #[serde(default)]
    volumes: Vec<Volume>,
}

impl Description {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has a value that makes no sense: the sentence names the place.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let at = path.display();
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|error| anyhow!("cannot read the cloud description {at}: {error}"))?;
        Self::parse(&text)
            .map_err(|reason| anyhow!("the cloud description {at} is wrong: {reason}"))
    }

    /// Reads a text; the error names the mistake and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        // No limit on the size: the file is the caller's own.
        let options = serde_saphyr::options! { budget: None };
        let file: File = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| error.without_snippet().to_string())?;
        let names = file.instances.iter().map(|spec| spec.name.as_str());
        unique("the name", names)?;
        let ids = file.instances.iter().filter_map(|spec| spec.id.as_ref());
        unique("the id", ids.map(InstanceId::as_str))?;
        let handles = file.volumes.iter().map(|volume| volume.handle.as_str());
        unique("the handle", handles)?;
        Ok(Self {
            instances: file.instances,
            volumes: file.volumes,
        })
    }
}

fn unique<'a>(field: &str, mut values: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut earlier = BTreeSet::new();
    match values.find(|value| !earlier.insert(*value)) {
        Some(twice) => Err(format!("{field} {twice} is there twice")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cloud.yaml");

    #[test]
    fn the_example_is_taken() {
        let description = Description::read(Path::new(EXAMPLE)).unwrap();
        let of = |name: &str| {
            description
                .instances
                .iter()
                .find(|spec| spec.name.as_str() == name)
                .unwrap()
        };
        assert_eq!(description.instances.len(), 4);
        assert_eq!(
            of("control-plane-1")
                .instance_type
                .as_ref()
                .unwrap()
                .as_str(),
            "mock.large"
        );
        assert_eq!(of("worker-2").power, crate::instances::Power::Shutdown);
        assert_eq!(of("worker-1").labels.len(), 1);
    }

    #[test]
    fn errors_are_named_with_their_place() {
        for (text, says) in [
            (
                "instances: [{name: a, colour: red}]",
                &["colour", "line 1"][..],
            ),
            (
                "instances:\n- name: a\n  zone: no zone\n",
                &["\"no zone\" is no label value", "line 3"],
            ),
            (
                "instances:\n- name: a\n- name: A\n",
                &["\"A\" is no node name", "line 3"],
            ),
            (
                "instances:\n- name: a\n  power: off\n",
                &["`off`", "pending", "line 3"],
            ),
            (
                "instances:\n- name: a\n  addresses:\n  - {type: InternalIP, address: 10.0.0.400}\n",
                &["10.0.0.400", "is no IP address", "line 4"],
            ),
            (
                "instances:\n- name: a\n  labels: {kubernetes.io/x: y}\n",
                &["kubernetes.io/x", "outside kubernetes.io", "line 3"],
            ),
            (
                "instances:\n- name: a\n- name: a\n",
                &["the name a is there twice"],
            ),
            (
                "instances:\n- {name: a, id: i-1}\n- {name: b, id: i-1}\n",
                &["the id i-1 is there twice"],
            ),
            (
                "instances: []\nvolumes: [{handle: a}, {handle: a}]\n",
                &["the handle a is there twice"],
            ),
            ("instances: 3", &["line 1"]),
            ("volumes: []", &["instances"]),
            ("instances: [", &["line 1"]),
            ("", &["line 1"]),
        ] {
            let error = Description::parse(text).unwrap_err();
            for word in says {
                assert!(
                    error.contains(word),
                    "{text:?} should contain {word:?}: {error}"
                );
            }
            assert!(!error.trim().contains('\n'), "one sentence: {error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Description::read(Path::new("/none/cloud.yaml"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/none/cloud.yaml"), "{error}");
    }
}
