//! The log: how much of it and in which format.

use outrigger_runtime::telemetry::{Format, Logging};

use super::Findings;
use crate::options::table::Flags;

pub(super) fn logging(flags: &Flags, f: &mut Findings) -> Logging {
    let format = match flags.logging_format.as_str() {
        "text" => Format::Text,
        "json" => Format::Json,
        other => {
            f.errors.push(format!(
                "format: Invalid value: {other:?}: Unsupported log format; --logging-format must be text or json"
            ));
            Format::Text
        }
    };
    Logging {
        verbosity: flags.v.value,
        modules: flags.vmodule.to_vec(),
        format,
        split_stream: flags.log_text_split_stream.value && format == Format::Text,
    }
}
