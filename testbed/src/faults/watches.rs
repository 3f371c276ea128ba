//! Open watches, which can be ended.

use std::{collections::BTreeMap, io, sync::Arc};

use bytes::Bytes;
use futures::{Stream, stream};
use http_body_util::BodyExt;
use hyper::body::Frame;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{sync::oneshot, task};

use super::{forward::expired_event, rule::Cut};

#[derive(Default)]
pub(super) struct Watches(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    next: u64,
    watches: BTreeMap<u64, (String, oneshot::Sender<Cut>)>,
}

/// The end of a watch after a number of events.
pub(super) struct End {
    pub(super) after: usize,
    pub(super) cut: Cut,
}

impl Watches {
    pub(super) fn cut(&self, path: &str, cut: Cut) -> usize {
        let mut open = self.0.lock();
        let ended = open.watches.extract_if(.., |_, (of, _)| of.contains(path));
        ended.filter_map(|(_, (_, end))| end.send(cut).ok()).count()
    }

    /// The body of a watch, until it ends by itself, by `cut` or by `end`.
    pub(super) fn stream(
        &self,
        path: String,
        body: Body,
        end: Option<End>,
    ) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send + 'static {
        let (sender, cut) = oneshot::channel();
        let mut open = self.0.lock();
        let id = open.next;
        open.next += 1;
        open.watches.insert(id, (path, sender));
        drop(open);
        let watch = Watch {
            body,
            cut,
            end,
            ended: false,
            _registered: Registered {
                id,
                open: Arc::clone(&self.0),
            },
        };
        stream::unfold(watch, |mut watch| async {
            let item = watch.next().await?;
            Some((item, watch))
        })
    }
}

struct Watch {
    body: Body,
    cut: oneshot::Receiver<Cut>,
    end: Option<End>,
    ended: bool,
    _registered: Registered,
}

impl Watch {
    async fn next(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        if self.ended {
            return None;
        }
        if let Some(end) = self.end.take_if(|end| end.after == 0) {
            return self.finish(end.cut).await;
        }
        let frame = tokio::select! {
            cut = &mut self.cut => Err(cut.unwrap_or(Cut::Abrupt)),
            frame = self.body.frame() => Ok(frame?),
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(cut) => return self.finish(cut).await,
        };
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => Some(Ok(Frame::data(self.pass(data)))),
            // Trailers mean nothing on HTTP/1.1.
            Ok(Err(_)) => None,
            Err(error) => {
                self.ended = true;
                Some(Err(io::Error::other(error)))
            }
        }
    }

    /// The part of `data` that may go out before the end. Events are lines.
    fn pass(&mut self, mut data: Bytes) -> Bytes {
        if let Some(end) = &mut self.end {
            for (index, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                end.after -= 1;
                if end.after == 0 {
                    data.truncate(index + 1);
                    break;
                }
            }
        }
        data
    }

    async fn finish(&mut self, cut: Cut) -> Option<io::Result<Frame<Bytes>>> {
        self.ended = true;
        match cut {
            Cut::Clean => None,
            Cut::Abrupt => {
                // hyper throws away what it has not yet sent when a body fails; while one
                // waits, it sends.
                task::yield_now().await;
                Some(Err(io::Error::other("cut")))
            }
            Cut::Expired => Some(Ok(Frame::data(expired_event()))),
        }
    }
}

struct Registered {
    id: u64,
    open: Arc<Mutex<Open>>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.open.lock().watches.remove(&self.id);
    }
}
