//! A process of the simulation: a runtime of its own on a clock of its own, which runs as far as it may.
//!
//! All hosts take turns on one thread. A message of one arrives in the next turn of the other.

use std::{cell::Cell, io, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::Instant,
};

/// The time of day when the simulation begins.
pub const EPOCH: Timestamp = Timestamp::constant(1_790_000_000, 0);

thread_local! {
    static CURRENT: Cell<Option<Identity>> = const { Cell::new(None) };
}

/// The part of a host that its code can ask for.
#[derive(Clone, Copy)]
struct Identity {
    name: &'static str,
    began: Instant,
    skew: SignedDuration,
}

/// The name of the host whose turn it is.
pub fn name() -> &'static str {
    CURRENT.get().map_or("-", |host| host.name)
}

/// The time since the beginning of the simulation, by the host whose turn it is.
pub fn elapsed() -> Duration {
    CURRENT
        .get()
        .map_or(Duration::ZERO, |host| host.began.elapsed())
}

/// The time of day without error.
pub fn true_time() -> Timestamp {
    EPOCH.checked_add(elapsed()).unwrap_or(Timestamp::MAX)
}

/// The time of day by the machine's clock of the host whose turn it is.
pub fn time_of_day() -> Timestamp {
    let skew = CURRENT.get().map(|host| host.skew).unwrap_or_default();
    true_time().checked_add(skew).unwrap_or(Timestamp::MAX)
}

/// A process.
pub struct Host {
    identity: Identity,
    runtime: Runtime,
    main: Option<JoinHandle<String>>,
    /// It gets no turn before.
    frozen_until: Duration,
}

impl Host {
    /// A process that begins at `now` with `main`, and ends with it; its output is why.
    ///
    /// # Errors
    /// If there is no runtime to be had.
    pub fn start(
        name: &'static str,
        now: Duration,
        main: impl Future<Output = String> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let began = runtime.block_on(async {
            let began = Instant::now();
            tokio::time::advance(now).await;
            began
        });
        let identity = Identity {
            name,
            began,
            skew: SignedDuration::ZERO,
        };
        let mut host = Self {
            identity,
            runtime,
            main: None,
            frozen_until: Duration::ZERO,
        };
        host.main = Some(host.within(|host| host.runtime.spawn(main)));
        Ok(host)
    }

    /// Runs `then` as the host.
    fn within<T>(&self, then: impl FnOnce(&Self) -> T) -> T {
        let before = CURRENT.replace(Some(self.identity));
        let result = then(self);
        CURRENT.set(before);
        result
    }

    /// Runs `then` as if it were a part of the host. It can neither wait nor be waited for.
    pub fn visit<T>(&self, then: impl FnOnce() -> T) -> T {
        self.within(|host| {
            let _entered = host.runtime.enter();
            then()
        })
    }

    /// Gives the host its turn, until `time`.
    pub fn run_until(&mut self, time: Duration) {
        if time < self.frozen_until {
            return;
        }
        self.within(|host| {
            let end = host.identity.began + time;
            host.runtime.block_on(async {
                let late = end.saturating_duration_since(Instant::now());
                if !host.frozen_until.is_zero() {
                    // All its timers see that the time has passed.
                    tokio::time::advance(late).await;
                }
                tokio::time::sleep_until(end).await;
            });
        });
        self.frozen_until = Duration::ZERO;
    }

    /// Takes its turns away until `time`, as SIGSTOP does.
    pub fn freeze(&mut self, time: Duration) {
        self.frozen_until = self.frozen_until.max(time);
    }

    /// Steps its machine's clock.
    pub fn set_skew(&mut self, skew: SignedDuration) {
        self.identity.skew = skew;
    }

    /// Why it has ended, once it has.
    pub fn ended(&mut self) -> Option<String> {
        let main = self.main.take_if(|main| main.is_finished())?;
        let ended = self.within(|host| host.runtime.block_on(main));
        Some(ended.unwrap_or_else(|failure| failure.to_string()))
    }
}
