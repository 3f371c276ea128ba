//! The image list of a node, which is most of its size.

use std::sync::OnceLock;

use k8s_openapi::api::core::v1::ContainerImage;

use super::seed;

/// Name with tag, and size in MB: 50, which is as many as kubelet reports.
const IMAGES: &str = include_str!("images.txt");

pub(super) fn images() -> Vec<ContainerImage> {
    static LIST: OnceLock<Vec<ContainerImage>> = OnceLock::new();
    LIST.get_or_init(|| IMAGES.lines().filter_map(image).collect())
        .clone()
}

fn image(line: &str) -> Option<ContainerImage> {
    let (image, megabytes) = line.split_once(' ')?;
    let (name, tag) = image.split_once(':')?;
    let megabytes: i64 = megabytes.parse().ok()?;
    let mut random = fastrand::Rng::with_seed(seed(name) ^ seed(tag));
    let digest = format!("{:032x}{:032x}", random.u128(..), random.u128(..));
    Some(ContainerImage {
        names: Some(vec![format!("{name}@sha256:{digest}"), image.to_owned()]),
        size_bytes: Some(megabytes * 1_000_000 + random.i64(..1_000_000).abs()),
    })
}
