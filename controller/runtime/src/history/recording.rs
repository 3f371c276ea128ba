//! The file of `--record`: a line of JSON for each decision, written by a thread of its own.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::HistoryMetrics;
use crate::clock::time_of_day;

/// Version of the format: another one once an input of a decision is added, removed or renamed. Another one is refused.
pub const FORMAT: u32 = 1;

/// Lines that may wait for the disk.
const WAITING: usize = 1024;

/// The first line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub recording: u32,
    /// Version of the program.
    pub program: String,
    /// When the file was begun.
    pub began: Timestamp,
}

/// Writes lines to a file.
#[derive(Debug)]
pub struct Recording(SyncSender<Arc<str>>);

impl Recording {
    /// Begins the file `path`, for its owner alone. A file that is there, and later one that has half of `limit` bytes,
    /// becomes `path` with `.1` behind it, in the place of an earlier one: both together have at most `limit`.
    ///
    /// An error later on ends the recording, and nothing else. It is logged once.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(path: PathBuf, limit: u64, metrics: HistoryMetrics) -> io::Result<Self> {
        let (sender, lines) = sync_channel(WAITING);
        let mut writer = Writer {
            path,
            limit: limit / 2,
            file: None,
            bytes: 0,
            metrics,
        };
        writer.rotate()?;
        thread::Builder::new()
            .name("recording".into())
            .spawn(move || writer.run(&lines))?;
        Ok(Self(sender))
    }

    /// Has `line` written; false if too many wait already.
    pub(super) fn write(&self, line: Arc<str>) -> bool {
        self.0.try_send(line).is_ok()
    }
}

struct Writer {
    path: PathBuf,
    /// Bytes of one file.
    limit: u64,
    /// Absent after an error.
    file: Option<BufWriter<File>>,
    bytes: u64,
    metrics: HistoryMetrics,
}

impl Writer {
    /// Writes until the last sender is gone.
    fn run(mut self, lines: &Receiver<Arc<str>>) {
        while let Ok(line) = lines.recv() {
            self.put(&line);
            while let Ok(line) = lines.try_recv() {
                self.put(&line);
            }
            let flushed = self.file.as_mut().map_or(Ok(()), BufWriter::flush);
            self.end_after(flushed);
        }
    }

    fn put(&mut self, line: &str) {
        if self.file.is_none() {
            self.metrics.lost.inc();
            return;
        }
        let written = self.write(line);
        if written.is_ok() {
            self.metrics.recorded.inc();
        } else {
            self.metrics.lost.inc();
        }
        self.end_after(written);
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let length = line.len() as u64 + 1;
        if self.bytes + length > self.limit {
            self.rotate()?;
        }
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}")?;
            self.bytes += length;
        }
        Ok(())
    }

    /// Begins a new file.
    fn rotate(&mut self) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.flush()?;
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|old| old.len() > 0 && old.is_file()) {
            fs::rename(&self.path, earlier(&self.path))?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.path)?;
        if file.metadata()?.is_file() {
            // An empty file that was there has kept its mode.
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let mut file = BufWriter::new(file);
        let header = Header {
            recording: FORMAT,
            program: crate::VERSION.into(),
            began: time_of_day(),
        };
        let header = serde_json::to_string(&header)?;
        writeln!(file, "{header}")?;
        self.bytes = header.len() as u64 + 1;
        self.file = Some(file);
        Ok(())
    }

    /// Ends the recording after an error.
    fn end_after(&mut self, result: io::Result<()>) {
        let Err(error) = result else {
            return;
        };
        if let Some(file) = self.file.take() {
            // Without another try to write the rest.
            let _ = file.into_parts();
        }
        warn!(
            file = %self.path.display(), %error,
            "decisions are not recorded any more, since the file of --record cannot be written; make room for it and \
             restart this replica"
        );
    }
}

/// Where the file before goes.
fn earlier(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".1");
    path.into()
}
