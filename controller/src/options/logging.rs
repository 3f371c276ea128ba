//! Verbosity and format of the log.

use clap::Args;
use outrigger_runtime::telemetry::{Format, Logging};

#[derive(Args)]
#[command(next_help_heading = "Logging")]
pub(super) struct LoggingFlags {
    /// Write warnings and errors to standard error, all other lines to standard output; false: all to
    /// standard error.
    #[arg(long)]
    log_text_split_stream: bool,
    /// Format of log lines: text or json.
    #[arg(long, default_value = "text", value_parser = format)]
    logging_format: Format,
    /// Verbosity of the log: 4 adds debug lines, 6 trace lines, 8 requests to the API server, 10 trace
    /// lines of libraries.
    #[arg(short, long, default_value = "0")]
    v: u32,
}

impl LoggingFlags {
    pub(super) fn settings(&self) -> Logging {
        Logging {
            verbosity: self.v,
            format: self.logging_format,
            split_stream: self.log_text_split_stream && self.logging_format == Format::Text,
        }
    }
}

fn format(text: &str) -> Result<Format, &'static str> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err("it must be text or json"),
    }
}
