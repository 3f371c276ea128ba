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
mod tests;
