//! Writes the methods that change a cloud, and the gRPC code of each reason, as Python.

use std::fmt::Write as _;

use outrigger_api::{METHODS, code_name, code_of};

use super::{ORIGIN, name, reasons};

pub(super) fn table() -> String {
    let mut text = format!(
        "\"\"\"Methods that change a cloud, and codes of reasons.\n\nThis file is {ORIGIN}.\n\"\"\"\n\n\
         from grpc import StatusCode\n\n\
         # The methods that make, change or delete something in the cloud, by the name that gRPC has for them.\n\
         CHANGES = {{\n"
    );
    for method in METHODS.iter().filter(|method| method.changes_cloud) {
        let _ = writeln!(text, "    {:?},", method.path);
    }
    text.push_str("}\n\n# The gRPC code that goes with each reason.\nCODES = {\n");
    for reason in reasons() {
        let (name, code) = (name(reason), code_name(code_of(reason)));
        let _ = writeln!(text, "    \"{name}\": StatusCode.{code},");
    }
    text.push_str("}\n");
    text
}
