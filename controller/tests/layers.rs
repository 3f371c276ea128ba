//! The crates of the controller depend downwards alone.

use std::{fs, path::Path};

/// Each crate, and those that it may depend on.
const LAYERS: [(&str, &[&str]); 6] = [
    ("core", &[]),
    ("runtime", &["core"]),
    ("kube", &["core", "runtime"]),
    ("provider", &["core", "runtime"]),
    ("loops", &["core", "runtime", "kube", "provider"]),
    (
        "controller",
        &["core", "runtime", "kube", "provider", "loops"],
    ),
];

#[test]
fn each_crate_depends_on_those_below_it_alone() {
    for (name, below) in LAYERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller");
        let folder = if name == "controller" {
            folder
        } else {
            folder.join(name)
        };
        let manifest = folder.join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
        let dependencies = dependencies.split("\n[").next().unwrap();
        for (other, _) in LAYERS.iter().filter(|(other, _)| !below.contains(other)) {
            let entry = format!("outrigger-{other}.");
            assert!(!dependencies.contains(&entry), "{name} depends on {other}");
        }
    }
}
