//! Logs on stderr: coloured lines on a terminal, one JSON object a line elsewhere.
//!
//! [`main`](crate::main) sets it up; a provider with a `main` of its own calls [`init_logging`], or sets up tracing itself.
//! The SDK's own lines are written through tracing either way: one line for each call that failed, with its `request_id`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Sets up logging for the whole process, panics included. The log level follows `RUST_LOG`,
/// default `info`.
///
/// Lines of a call carry its `request_id`. Does nothing where logging was set up before.
pub fn init_logging() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let format = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        format.try_init()
    } else {
        format
            .with_ansi(false)
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .try_init()
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(|panic| {
            let location = panic.location().map(tracing::field::display);
            tracing::error!(
                location,
                "panic: {}",
                panic.payload_as_str().unwrap_or("(no text)")
            );
        }));
    }
}
