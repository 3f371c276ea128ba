//! A cloud described in YAML.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::anyhow;
use serde::Deserialize;

use crate::instances::{InstanceId, InstanceSpec, LabelKey, LabelValue};
use crate::volumes::Volume;

/// The instances and volumes that a cloud starts with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Each with the defaults of the file filled in.
    pub instances: Vec<InstanceSpec>,
    /// No handle twice.
    pub volumes: Vec<Volume>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[serde(default)]
    defaults: Defaults,
    instances: Vec<InstanceSpec>,
    #[serde(default)]
    volumes: Vec<Volume>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Defaults {
    #[serde(rename = "type", default)]
    instance_type: Option<LabelValue>,
    #[serde(default)]
    zone: Option<LabelValue>,
    #[serde(default)]
    region: Option<LabelValue>,
    #[serde(default)]
    labels: BTreeMap<LabelKey, LabelValue>,
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
        let instances = file
            .instances
            .into_iter()
            .map(|spec| file.defaults.fill(spec))
            .collect();
        Ok(Self {
            instances,
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

impl Defaults {
    fn fill(&self, spec: InstanceSpec) -> InstanceSpec {
        let mut labels = self.labels.clone();
        labels.extend(spec.labels);
        // A zone belongs to one region: who names another region does not want the default zone.
        let zone = if spec.region.is_none() {
            self.zone.clone()
        } else {
            None
        };
        InstanceSpec {
            instance_type: spec.instance_type.or_else(|| self.instance_type.clone()),
            zone: spec.zone.or(zone),
            region: spec.region.or_else(|| self.region.clone()),
            labels,
            ..spec
        }
    }
}

#[cfg(test)]
mod tests;
