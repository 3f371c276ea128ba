//! The log of a run: the controllers' own lines, each after the name of its host.

use std::{
    collections::hash_map::DefaultHasher,
    hash::Hasher,
    io::{self, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::host;

/// Takes lines. Clones are the same log.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Inner>>);

struct Inner {
    digest: DefaultHasher,
    lines: u64,
    to: Option<Box<dyn Write + Send>>,
}

impl Log {
    /// A log that is written to `to`, too.
    pub fn new(to: Option<Box<dyn Write + Send>>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            digest: DefaultHasher::new(),
            lines: 0,
            to,
        })))
    }

    /// The number of lines so far, and what all of them hash to.
    pub fn digest(&self) -> (u64, u64) {
        let inner = self.0.lock();
        (inner.lines, inner.digest.finish())
    }
}

impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.lock();
        let name = host::name();
        inner.lines += 1;
        inner.digest.write(name.as_bytes());
        inner.digest.write(line);
        if let Some(to) = &mut inner.to {
            write!(to, "{name:10} ")?;
            to.write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().to.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}
