//! The metadata that all objects of the API have, as the views read it.
//!
//! An object without a name is an error of that object. All other fields may be absent or `null`.

use jiff::Timestamp;
use serde::Deserialize;

use crate::{api_time, null::or_default, string_map::StringMap};

/// The fields that views are made of. The object must have a name, unless `N` is an option.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectMetadata<N = Box<str>> {
    pub(crate) name: N,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) namespace: Box<str>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) uid: Box<str>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) resource_version: Box<str>,
    #[serde(default, deserialize_with = "api_time::or_absent")]
    pub(crate) creation_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "api_time::or_absent")]
    pub(crate) deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub(crate) labels: StringMap,
    #[serde(default)]
    pub(crate) annotations: StringMap,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) finalizers: Box<[Box<str>]>,
}
