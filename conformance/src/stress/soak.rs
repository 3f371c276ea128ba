//! The growth of the provider's process under load, in memory and open files.

use std::{fmt, fs, time::Duration};

use tokio::time::{interval, sleep};

use crate::subject::Subject;

/// Samples in a whole run.
const SAMPLES: u32 = 40;
/// The shortest time between two.
const OFTEN: Duration = Duration::from_millis(100);
/// Growth of memory from the second quarter of a run to the last that is none: caches fill, and an
/// allocator does not give everything back.
const MEMORY: u64 = 16 << 20;
/// The same of open files.
const FILES: u64 = 8;

/// The size of a process, with the processes that it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Resident bytes.
    memory: u64,
    /// Open files and sockets.
    files: u64,
}

/// How the size of the provider's process went, for as long as it was looked at.
#[derive(Clone, Debug, Default)]
pub struct Course {
    sizes: Vec<Size>,
    /// The load was repeated: memory that the first one needs is no growth.
    is_repeated: bool,
}

impl Course {
    /// Looks at the provider's process, if it is the suite's, until dropped.
    pub(super) async fn watch(&mut self, subject: &Subject, duration: Duration) {
        self.is_repeated = !duration.is_zero();
        let mut ticks = interval((duration / SAMPLES).max(OFTEN));
        loop {
            ticks.tick().await;
            if let Some(id) = subject.process_id().await {
                self.sizes.extend(size_of(id));
            } else {
                // Nothing to look at, now or later: the provider is not the suite's.
                sleep(duration).await;
            }
        }
    }

    /// The middle size of the second quarter, when caches are warm, and of the last; none where the load
    /// came once, or too few samples were taken.
    fn ends(&self) -> Option<(Size, Size)> {
        if !self.is_repeated {
            return None;
        }
        let quarter = self.sizes.len() / 4;
        let middle = |sizes: &[Size]| {
            let of = |part: fn(&Size) -> u64| {
                let mut values: Vec<_> = sizes.iter().map(part).collect();
                values.sort_unstable();
                values.get(values.len() / 2).copied()
            };
            Some(Size {
                memory: of(|size| size.memory)?,
                files: of(|size| size.files)?,
            })
        };
        let early = middle(self.sizes.get(quarter..2 * quarter)?)?;
        let late = middle(self.sizes.get(3 * quarter..)?)?;
        Some((early, late))
    }

    /// True if memory or open files have grown.
    pub fn grew(&self) -> bool {
        self.ends().is_some_and(|(early, late)| {
            late.memory > early.memory + early.memory / 10 + MEMORY
                || late.files > early.files + FILES
        })
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let most = |part: fn(&Size) -> u64| self.sizes.iter().map(part).max();
        let (Some(memory), Some(files)) = (most(|size| size.memory), most(|size| size.files))
        else {
            return Ok(());
        };
        let Some((early, late)) = self.ends() else {
            let memory = mib(memory);
            return writeln!(
                f,
                "the provider's process: at most {memory:.1} MiB, {files} open files"
            );
        };
        writeln!(
            f,
            "the provider's process from the second quarter to the last: {:.1} to {:.1} MiB (at most {:.1}), \
             {} to {} open files: {}",
            mib(early.memory),
            mib(late.memory),
            mib(memory),
            early.files,
            late.files,
            if self.grew() { "it grows" } else { "flat" },
        )
    }
}

/// The size of a process and all below it; none when it has ended.
fn size_of(id: u32) -> Option<Size> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident?.split_whitespace().next()?.parse::<u64>().ok()?;
    let files = fs::read_dir(format!("/proc/{id}/fd")).ok()?.count() as u64;
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|id| id.parse().ok());
    let own = Size {
        memory: kib << 10,
        files,
    };
    Some(children.filter_map(size_of).fold(own, |sum, child| Size {
        memory: sum.memory + child.memory,
        files: sum.files + child.files,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(memory: impl Fn(u64) -> u64, files: impl Fn(u64) -> u64) -> Course {
        let size = |index| Size {
            memory: memory(index) << 20,
            files: files(index),
        };
        Course {
            sizes: (0..40).map(size).collect(),
            is_repeated: true,
        }
    }

    #[test]
    fn a_process_that_warms_up_does_not_grow() {
        assert!(!course(|_| 50, |_| 12).grew());
        // The first quarter does not count.
        assert!(!course(|index| 20 + 8 * index.min(9), |index| 12 + index.min(9)).grew());
        assert!(course(|index| 50 + 2 * index, |_| 12).grew());
        assert!(course(|_| 50, |index| 12 + index).grew());
        assert!(!Course::default().grew());
    }

    #[test]
    fn a_load_that_came_once_is_no_growth() {
        let grown = course(|index| 50 + 2 * index, |index| 12 + index);
        assert!(
            grown.grew() && grown.to_string().ends_with("it grows\n"),
            "{grown}"
        );
        let once = Course {
            is_repeated: false,
            ..grown
        };
        assert!(!once.grew());
        assert_eq!(
            once.to_string(),
            "the provider's process: at most 128.0 MiB, 51 open files\n"
        );
        assert_eq!(Course::default().to_string(), "");
    }

    #[test]
    fn this_process_has_a_size() {
        let size = size_of(std::process::id()).unwrap();
        assert!(size.memory > 1 << 20 && size.files >= 3, "{size:?}");
        assert_eq!(size_of(u32::MAX), None);
    }
}
