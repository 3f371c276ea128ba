//! The log of a provider that is a process of the suite: searched for secrets.

use std::{io::Write as _, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::Child,
    task::JoinSet,
};

/// Lines with a secret that are kept.
const MOST: usize = 10;

/// Reads what each process of a run writes.
#[derive(Debug, Default)]
pub(crate) struct Log {
    secrets: Vec<String>,
    with_secrets: Mutex<Vec<String>>,
}

impl Log {
    pub(crate) fn new(secrets: &[String]) -> Self {
        // An empty text is in every line.
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        Self {
            secrets: secrets.cloned().collect(),
            with_secrets: Mutex::default(),
        }
    }

    /// Reads both streams to their end; standard error is shown too.
    pub(crate) fn follow(self: &Arc<Self>, child: &mut Child) -> JoinSet<()> {
        let mut reading = JoinSet::new();
        if let Some(stream) = child.stdout.take() {
            let log = Arc::clone(self);
            reading.spawn(async move { log.read("output", stream, |_| ()).await });
        }
        if let Some(stream) = child.stderr.take() {
            let log = Arc::clone(self);
            let show = |line: &[u8]| {
                // The suite goes on where its own standard error is closed.
                let _ = std::io::stderr().write_all(line);
            };
            reading.spawn(async move { log.read("error", stream, show).await });
        }
        reading
    }

    async fn read(&self, name: &str, stream: impl AsyncRead + Unpin, show: impl Fn(&[u8])) {
        let mut lines = BufReader::new(stream);
        let (mut line, mut number) = (Vec::new(), 0_u64);
        while lines.read_until(b'\n', &mut line).await.unwrap_or_default() > 0 {
            number += 1;
            show(&line);
            self.search(name, number, &String::from_utf8_lossy(&line));
            line.clear();
        }
    }

    fn search(&self, name: &str, number: u64, line: &str) {
        let holds = |secret: &String| line.contains(secret.as_str());
        let mut lines = self.with_secrets.lock();
        if lines.len() < MOST && self.secrets.iter().any(holds) {
            // The line is not kept: it holds the secret.
            lines.push(format!("line {number} of standard {name}"));
        }
    }

    /// The lines with a secret, by their numbers.
    pub(crate) fn with_secrets(&self) -> Vec<String> {
        self.with_secrets.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_with_a_secret_is_named_and_not_kept() {
        let log = Log::new(&["hush".to_owned(), String::new()]);
        log.read("error", &b"started\ntoken=hush\nno end"[..], |_| ())
            .await;
        assert_eq!(log.with_secrets(), ["line 2 of standard error"]);
    }
}
