//! The methods and reasons of the contract as tables for the other languages of this repository, one committed file each.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

#[path = "tables/go.rs"]
mod go;
#[path = "tables/typescript.rs"]
mod typescript;

use std::{collections::BTreeMap, env, fs, path::Path};

use outrigger_api::{FILE_DESCRIPTOR_SET, METHODS, Method, v1::ErrorReason};
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};

const ORIGIN: &str =
    "made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api";

/// The messages that a method names.
struct Messages {
    /// Requests of each method by its path.
    requests: BTreeMap<String, String>,
    /// The items of each batch by its request, with their key.
    items: BTreeMap<String, (String, &'static str)>,
}

impl Messages {
    fn read() -> Self {
        let set =
            FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the build wrote descriptors");
        let short = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let services = set.file.iter().flat_map(|file| &file.service);
        let requests: BTreeMap<_, _> = services
            .flat_map(|service| service.method.iter().map(move |method| (service, method)))
            .map(|(service, method)| {
                let path = format!("/cloudprovider.v1.{}/{}", service.name(), method.name());
                (path, short(method.input_type()))
            })
            .collect();
        let messages: Vec<&DescriptorProto> = set
            .file
            .iter()
            .filter(|file| file.package() == "cloudprovider.v1")
            .flat_map(|file| &file.message_type)
            .collect();
        let item = |method: &Method| {
            let key = method.item_key?;
            let request = requests.get(method.path)?;
            let message = messages
                .iter()
                .find(|message| message.name() == request)
                .expect("a method has a request");
            let field = message.field.iter().find(|field| field.name() == "items");
            let field = field.expect("a batch has items");
            Some((request.clone(), (short(field.type_name()), key)))
        };
        let items = METHODS.iter().filter_map(item).collect();
        Self { requests, items }
    }

    fn request(&self, method: &Method) -> &str {
        self.requests.get(method.path).expect("each has a request")
    }
}

fn reasons() -> impl Iterator<Item = ErrorReason> {
    (1..1000).filter_map(|number| ErrorReason::try_from(number).ok())
}

/// `RATE_LIMITED`.
fn name(reason: ErrorReason) -> &'static str {
    reason.as_str_name().trim_start_matches("ERROR_REASON_")
}

fn is_written(path: &str, table: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("UPDATE_CONTRACT").is_some() {
        fs::write(file, table).expect("the table can be written");
        return;
    }
    let committed = fs::read_to_string(file).unwrap_or_default();
    let lines = committed.lines().zip(table.lines());
    let differs = lines.into_iter().find(|(old, new)| old != new);
    assert!(
        committed == table,
        "{path} is not the table of the contract; first difference: {differs:#?}\n\
         Write it with UPDATE_CONTRACT=1 cargo test -p outrigger-api"
    );
}

#[test]
fn go_has_the_table() {
    is_written(
        "adapters/go/cloudproviderv1/contract.go",
        &go::table(&Messages::read()),
    );
}

#[test]
fn typescript_has_the_table() {
    is_written("sdk/typescript/src/contract.ts", &typescript::table());
}
