//! The log: how much of it and in which format.

use crate::options::flags::GlobalFlags;
use outrigger_runtime::telemetry::{Format, Logging, ModuleVerbosity};

/// The settings of the log.
pub(super) fn logging(flags: &GlobalFlags, errors: &mut Vec<String>) -> Logging {
    let format = match flags.logging_format.as_str() {
        "text" => Format::Text,
        "json" => Format::Json,
        other => {
            errors.push(format!(
                "format: Invalid value: {other:?}: Unsupported log format; --logging-format \
                 must be text or json"
            ));
            Format::Text
        }
    };
    let mut modules = Vec::new();
    for item in flags.vmodule.split(',').filter(|item| !item.is_empty()) {
        match module(item) {
            Ok(module) => modules.push(module),
            Err(error) => errors.push(format!("--vmodule: {error}")),
        }
    }
    Logging {
        verbosity: flags.verbosity,
        modules,
        format,
        split_stream: flags.log_text_split_stream.0 && format == Format::Text,
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
