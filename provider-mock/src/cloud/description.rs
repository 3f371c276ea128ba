//! A cloud described in YAML.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use serde::Deserialize;

use crate::instances::{InstanceSpec, LabelKey, LabelValue};
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
        let mut names = BTreeMap::new();
        let mut ids = BTreeMap::new();
        for (index, spec) in file.instances.iter().enumerate() {
            if let Some(first) = names.insert(spec.name.clone(), index) {
                return Err(format!(
                    "instances[{index}] has the name {} of instances[{first}]; names are unique",
                    spec.name
                ));
            }
            if let Some(id) = &spec.id
                && let Some(first) = ids.insert(id.clone(), index)
            {
                return Err(format!(
                    "instances[{index}] has the id {id} of instances[{first}]; ids are unique"
                ));
            }
        }
        let mut handles = BTreeMap::new();
        for (index, volume) in file.volumes.iter().enumerate() {
            if let Some(first) = handles.insert(&volume.handle, index) {
                return Err(format!(
                    "volumes[{index}] has the handle {} of volumes[{first}]; handles are unique",
                    volume.handle
                ));
            }
        }
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
