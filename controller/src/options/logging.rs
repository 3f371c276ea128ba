//! The checked logging flags.

use super::flags::GlobalFlags;

/// Levels and formats of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// `-v`, in klog's scale.
    pub verbosity: u32,
    /// `--vmodule`: the first pattern that fits decides.
    pub modules: Vec<ModuleVerbosity>,
    /// `--logging-format`.
    pub format: Format,
    /// `--log-text-split-stream`: only warnings and errors go to standard error.
    pub split_stream: bool,
}

/// A verbosity for some modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleVerbosity {
    /// Of module names, with `*` and `?`.
    pub pattern: String,
    /// In klog's scale.
    pub verbosity: u32,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Logging {
    pub(super) fn from_flags(flags: &GlobalFlags, errors: &mut Vec<String>) -> Self {
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
        Self {
            verbosity: flags.verbosity,
            modules,
            format,
            split_stream: flags.log_text_split_stream.0 && format == Format::Text,
        }
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
