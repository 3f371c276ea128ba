//! Connections to a load balancer, one after the other.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

/// A connection that is not answered within this time is lost.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(20);

/// A task that connects until it is dropped.
pub(super) struct Connections {
    /// The task ends with it.
    _task: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    all: AtomicUsize,
    lost: AtomicUsize,
    in_a_row: AtomicUsize,
}

impl Connections {
    /// Begins with connections to port 80 of this address.
    pub(super) fn to(address: String) -> Self {
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let is_answered = answer(&address).await.is_some();
                counted.all.fetch_add(1, Ordering::Relaxed);
                if is_answered {
                    counted.in_a_row.fetch_add(1, Ordering::Relaxed);
                } else {
                    counted.lost.fetch_add(1, Ordering::Relaxed);
                    counted.in_a_row.store(0, Ordering::Relaxed);
                }
                sleep(EVERY).await;
            }
        });
        Self {
            _task: task,
            counts,
        }
    }

    /// How many have been answered since the last one that was lost.
    pub(super) fn answered_in_a_row(&self) -> usize {
        self.counts.in_a_row.load(Ordering::Relaxed)
    }

    /// How many were lost, and how many there were.
    pub(super) fn lost_of_all(&self) -> (usize, usize) {
        let Counts { all, lost, .. } = &*self.counts;
        (lost.load(Ordering::Relaxed), all.load(Ordering::Relaxed))
    }
}

/// The answer to one connection.
pub(super) async fn answer(address: &str) -> Option<String> {
    let ask = async {
        let mut stream = TcpStream::connect((address, 80)).await?;
        let request = format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, io::Error>(text)
    };
    let text = timeout(ANSWERED_WITHIN, ask).await.ok()?.ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some(body.trim().to_owned())
}
