//! Log lines as klog writes them, so that what reads the logs of Kubernetes' components reads these.
//!
//! ```text
//! I1122 10:15:36.000000       1 sync.rs:120] "node initialized" attempts=2 node="node-17"
//! {"attempts":2,"caller":"node/sync.rs:120","msg":"node initialized","node":"node-17","ts":1795342536000.0,"v":0}
//! ```
//!
//! The fields are in alphabetical order.

use std::fmt::{self, Write};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_serde::fields::AsMap;
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::Format;
use crate::clock::time_of_day;

/// Writes lines in one of klog's formats.
pub(super) struct Klog {
    format: Format,
    now: fn() -> Timestamp,
    process: u32,
}

impl Klog {
    pub(super) fn new(format: Format, process: u32) -> Self {
        Self {
            format,
            now: time_of_day,
            process,
        }
    }
}

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(event.field_map()) else {
            return Err(fmt::Error);
        };
        let message = fields.remove("message").unwrap_or_default();
        if let Some(error) = fields.remove("error") {
            // klog's name for it.
            fields.insert("err".to_owned(), error);
        }
        let line = match self.format {
            Format::Text => self.text(event.metadata(), &message, &fields)?,
            Format::Json => self.json(event.metadata(), message, fields),
        };
        // In one piece, so that lines of two threads do not mix.
        writer.write_str(&line)
    }
}

impl Klog {
    fn text(
        &self,
        metadata: &Metadata<'_>,
        message: &Value,
        fields: &Map<String, Value>,
    ) -> Result<String, fmt::Error> {
        let severity = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let time = (self.now)().to_zoned(TimeZone::UTC);
        let time = time.strftime("%m%d %H:%M:%S.%6f");
        let path = metadata.file().unwrap_or("unknown");
        let file = path.rsplit('/').next().unwrap_or(path);
        let line = metadata.line().unwrap_or(1);
        let mut out = format!("{severity}{time} {:7} {file}:{line}] ", self.process);
        write!(out, "{:?}", message.as_str().unwrap_or_default())?;
        for (name, value) in fields {
            match value {
                Value::String(text) => write!(out, " {name}={text:?}")?,
                other => write!(out, " {name}={other}")?,
            }
        }
        out.push('\n');
        Ok(out)
    }

    fn json(
        &self,
        metadata: &Metadata<'_>,
        message: Value,
        mut fields: Map<String, Value>,
    ) -> String {
        let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        // Milliseconds, as the API machinery's JSON.
        let nanos = (self.now)().as_nanosecond();
        put("ts", (nanos as f64 / 1e6).into());
        put("caller", caller(metadata).into());
        put("msg", message);
        match *metadata.level() {
            Level::ERROR => None,
            Level::WARN => {
                put("severity", "warning".into());
                put("v", 0.into())
            }
            Level::INFO => put("v", 0.into()),
            Level::DEBUG => put("v", 4.into()),
            Level::TRACE => put("v", 6.into()),
        };
        format!("{}\n", Value::from(fields))
    }
}

/// The file with its folder, and the line.
fn caller(metadata: &Metadata<'_>) -> String {
    let path = metadata.file().unwrap_or("unknown");
    let mut parts = path.rsplitn(3, '/');
    let short = match (parts.next(), parts.next()) {
        (Some(file), Some(folder)) => format!("{folder}/{file}"),
        _ => path.to_owned(),
    };
    format!("{short}:{}", metadata.line().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::{Registry, fmt, layer::SubscriberExt};

    use super::*;

    /// The lines that `speak` logs.
    fn lines(format: Format, speak: fn()) -> String {
        let klog = Klog {
            format,
            now: || Timestamp::new(1_795_342_536, 7_000_000).unwrap(),
            process: 42,
        };
        let written = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&written);
        let layer = fmt::layer()
            .event_format(klog)
            .with_writer(move || To(Arc::clone(&to)));
        tracing::subscriber::with_default(Registry::default().with(layer), speak);
        let written = written.lock().unwrap();
        String::from_utf8(written.clone()).unwrap()
    }

    struct To(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for To {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn speak() {
        tracing::info!(node = "a \"b\"", tries = 2, ready = true, "two\nlines");
        let error = std::io::Error::other("out of paper");
        tracing::warn!(%error, "no page");
        tracing::error!("the end");
        tracing::debug!(list = ?["x"], "details");
    }

    #[test]
    fn text_has_klogs_header_and_quoted_values() {
        let lines = lines(Format::Text, speak);
        let lines: Vec<_> = lines.lines().collect();
        let [info, warning, error, debug] = lines[..] else {
            panic!("{lines:?}");
        };
        let (head, rest) = info.split_once("klog.rs:").unwrap();
        assert_eq!(head, "I1122 10:15:36.007000      42 ");
        let rest = rest.split_once("] ").unwrap().1;
        assert_eq!(rest, r#""two\nlines" node="a \"b\"" ready=true tries=2"#);
        assert!(
            warning.starts_with("W1122 ") && warning.ends_with(r#"] "no page" err="out of paper""#)
        );
        assert!(error.starts_with("E1122 ") && error.ends_with(r#"] "the end""#));
        assert!(debug.starts_with("I1122 ") && debug.ends_with(r#"] "details" list="[\"x\"]""#));
    }

    #[test]
    fn json_has_klogs_keys() {
        let lines = lines(Format::Json, speak);
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [info, warning, error, debug] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(info["ts"], 1_795_342_536_007.0);
        assert!(
            info["caller"]
                .as_str()
                .unwrap()
                .starts_with("logs/klog.rs:")
        );
        assert_eq!(
            (&info["msg"], &info["v"]),
            (&"two\nlines".into(), &0.into())
        );
        assert_eq!(
            (&info["node"], &info["tries"]),
            (&"a \"b\"".into(), &2.into())
        );
        assert_eq!(
            (&warning["err"], &warning["v"]),
            (&"out of paper".into(), &0.into())
        );
        assert_eq!(warning["severity"], "warning");
        assert_eq!((&error["msg"], error.get("v")), (&"the end".into(), None));
        assert_eq!(debug["v"], 4);
    }
}
