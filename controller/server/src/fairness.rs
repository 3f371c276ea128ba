//! Requests to another server that any client can cause: bounded in all, by peer and by rate, and served in order.
//!
//! The rate alone would serve the peer that asks most. Each peer has a few places, and where all places are taken,
//! the peer with the most of them gives one to a peer that has less.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How many may be in flight or wait, and how soon after one another they begin.
#[derive(Clone, Copy, Debug)]
pub struct FairLimits {
    /// Limit for one address.
    pub per_peer: usize,
    /// Limit for all addresses together.
    pub total: usize,
    /// From one to the next.
    pub period: Duration,
}

/// There is no place for one more, or its place was given to another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

/// The places of all peers.
pub struct FairQueue {
    limits: FairLimits,
    taken: Arc<Mutex<Taken>>,
    /// When the next may begin. Its waiters are served in order.
    next: tokio::sync::Mutex<Instant>,
}

#[derive(Default)]
struct Taken {
    places: HashMap<u64, (IpAddr, CancellationToken)>,
    begun: u64,
}

impl FairQueue {
    /// Without any request in flight.
    pub fn new(limits: FairLimits) -> Self {
        Self {
            limits,
            taken: Arc::default(),
            next: tokio::sync::Mutex::new(Instant::now()),
        }
    }

    /// Does `work` for `peer` when it is its turn.
    ///
    /// # Errors
    /// At once, if there is no place for it; later, if its place is given to a peer that has fewer.
    pub async fn run<T>(
        &self,
        peer: IpAddr,
        work: impl Future<Output = T>,
    ) -> Result<T, Overloaded> {
        let place = self.place(peer.to_canonical()).ok_or(Overloaded)?;
        let in_turn = async {
            let mut next = self.next.lock().await;
            sleep_until(*next).await;
            *next = Instant::now() + self.limits.period;
            drop(next);
            work.await
        };
        let done = place.lost.run_until_cancelled(in_turn).await;
        done.ok_or(Overloaded)
    }

    fn place(&self, peer: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock();
        let of_peers = taken.of_peers();
        let own = of_peers.get(&peer).copied().unwrap_or_default();
        if own >= self.limits.per_peer {
            return None;
        }
        if taken.places.len() >= self.limits.total {
            let loser = taken.loser(own, &of_peers)?;
            if let Some((_, lost)) = taken.places.remove(&loser) {
                lost.cancel();
            }
        }
        let (number, lost) = (taken.begun, CancellationToken::new());
        taken.begun += 1;
        taken.places.insert(number, (peer, lost.clone()));
        drop(taken);
        Some(Place {
            taken: Arc::clone(&self.taken),
            number,
            lost,
        })
    }
}

impl Taken {
    fn of_peers(&self) -> HashMap<IpAddr, usize> {
        let mut of_peers = HashMap::new();
        for (peer, _) in self.places.values() {
            *of_peers.entry(*peer).or_default() += 1;
        }
        of_peers
    }

    /// The newest of the peer with the most, if one more of the asking peer, which has `own`, is fewer still: else the
    /// two would take the place from each other for ever.
    fn loser(&self, own: usize, of_peers: &HashMap<IpAddr, usize>) -> Option<u64> {
        let most = of_peers.values().copied().max()?;
        let heaviest = self
            .places
            .iter()
            .filter(|(_, (peer, _))| of_peers.get(peer) == Some(&most));
        let newest = heaviest.map(|(number, _)| *number).max()?;
        (own + 1 < most).then_some(newest)
    }
}

/// A place, given back on drop.
struct Place {
    taken: Arc<Mutex<Taken>>,
    number: u64,
    lost: CancellationToken,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.lock().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use tokio::{task::JoinSet, time::timeout};

    use super::*;

    const LIMITS: FairLimits = FairLimits {
        per_peer: 8,
        total: 64,
        period: Duration::from_millis(5),
    };

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Each of the strangers asks again as soon as it has an answer or is refused.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_asks_once_is_served_beside_strangers_that_ask_without_end() {
        let few = FairLimits {
            per_peer: 2,
            total: 8,
            ..LIMITS
        };
        let queue = Arc::new(FairQueue::new(few));
        let mut strangers = JoinSet::new();
        for nth in 0..15_u8 {
            let queue = Arc::clone(&queue);
            strangers.spawn(async move {
                loop {
                    let work = tokio::time::sleep(Duration::from_millis(20));
                    let _ = queue.run(peer(nth % 5), work).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..5 {
            let scrape = queue.run(peer(99), async {});
            let scraped = timeout(Duration::from_millis(200), scrape).await;
            assert_eq!(scraped.expect("it waits for too long"), Ok(()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_holds_in_all_and_the_first_to_come_is_the_first_to_begin() {
        let queue = FairQueue::new(LIMITS);
        let began = Instant::now();
        let all = (0..40_u8).map(|nth| {
            let begun = async move { (nth, began.elapsed()) };
            queue.run(peer(nth % 5), begun)
        });
        let all = futures::future::join_all(all).await;
        for (nth, one) in all.into_iter().enumerate() {
            let (number, after) = one.unwrap();
            assert_eq!(usize::from(number), nth);
            assert_eq!(after, LIMITS.period * u32::from(number), "{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_shared_out_evenly_and_are_given_back() {
        let queue = Arc::new(FairQueue::new(LIMITS));
        let mut held = JoinSet::new();
        let mut hold = |last| {
            let queue = Arc::clone(&queue);
            held.spawn(async move { queue.run(peer(last), pending::<()>()).await });
        };
        let of = |last| {
            let of_peers = queue.taken.lock().of_peers();
            of_peers.get(&peer(last)).copied().unwrap_or_default()
        };
        for nth in 0..200 {
            hold(nth % 8);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!((0..8).all(|last| of(last) == 8), "each has its share");
        for _ in 0..20 {
            hold(9);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(of(9), 7, "as many as the others have left");
        assert!((0..8).all(|last| (7..=8).contains(&of(last))));
        held.shutdown().await;
        assert_eq!(queue.taken.lock().places.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_in_the_form_of_both_families_is_one_peer() {
        let queue = FairQueue::new(LIMITS);
        let held: Vec<_> = (0..8).map(|_| queue.place(peer(1))).collect();
        assert!(held.iter().all(Option::is_some));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(queue.run(mapped, async {}).await, Err(Overloaded));
        drop(held);
        assert_eq!(queue.run(mapped, async {}).await, Ok(()));
    }
}
