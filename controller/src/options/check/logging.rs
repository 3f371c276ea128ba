//! The log: how much of it and in which format.

use outrigger_runtime::telemetry::{Format, Logging, ModuleVerbosity};

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
    let levels = flags.vmodule.0.split(',').filter(|item| !item.is_empty());
    let modules: Result<_, String> = levels.map(module).collect();
    Logging {
        verbosity: flags.v.0,
        modules: f.valid(modules.map_err(|error| format!("--vmodule: {error}"))),
        format,
        split_stream: flags.log_text_split_stream.value && format == Format::Text,
    }
}

fn module(item: &str) -> Result<ModuleVerbosity, String> {
    let (pattern, verbosity) = item
        .split_once('=')
        .filter(|(pattern, _)| !pattern.is_empty())
        .ok_or_else(|| format!("{item:?} does not have the pattern=N format"))?;
    let verbosity = verbosity
        .parse()
        .map_err(|_| format!("in {item:?}, {verbosity:?} is not a level such as 4"))?;
    Ok(ModuleVerbosity {
        pattern: pattern.to_owned(),
        verbosity,
    })
}
