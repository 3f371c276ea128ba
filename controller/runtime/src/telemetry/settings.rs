//! Levels and formats of the log.

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
