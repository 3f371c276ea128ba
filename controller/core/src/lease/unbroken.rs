//! Terms of a Lease that followed each other with no other program's between them.
//!
//! Upstream's controller may lead in between, on the way back from this one: then the records of this one do not
//! show what was done.

use std::fmt;

/// `<first>-<last>`, numbers of terms as in `leaseTransitions`, which every program counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbroken {
    /// 0 also where no other program is known to have led since the first record.
    pub first: i32,
    /// The last term that this program began.
    pub last: i32,
}

impl Unbroken {
    /// The terms that a Lease shows, if this program has led.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        Some(Self {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
        })
    }

    /// When the term `next` begins on a Lease that says `before` and whose term `held` was the last one.
    pub fn claimed(before: Option<&str>, held: i32, next: i32) -> Self {
        let first = match before.map(Self::parse) {
            // There are no records yet.
            None => 0,
            Some(Some(terms)) if terms.last == held => terms.first,
            Some(_) => next,
        };
        Self { first, last: next }
    }

    /// Returns true if another program led between the last term and the one before.
    pub const fn follows_another(self) -> bool {
        self.first != 0 && self.first == self.last
    }
}

impl fmt::Display for Unbroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::Unbroken;

    #[test]
    fn a_term_of_another_program_breaks_the_row() {
        for (before, held, next, expected) in [
            (None, 0, 0, "0-0"),
            // Upstream's controller led before the first term of this one.
            (None, 6, 7, "0-7"),
            (Some("0-7"), 7, 8, "0-8"),
            (Some("0-8"), 9, 10, "10-10"),
            (Some("10-10"), 10, 11, "10-11"),
            // The claim was written, and its answer was lost.
            (Some("10-11"), 11, 11, "10-11"),
            // The Lease was deleted, and made by another program.
            (Some("10-11"), 0, 1, "1-1"),
            (Some("x"), 3, 4, "4-4"),
            (Some("1-"), 1, 2, "2-2"),
        ] {
            let claimed = Unbroken::claimed(before, held, next);
            assert_eq!(claimed.to_string(), expected, "{before:?} {held} {next}");
            assert_eq!(Unbroken::parse(expected), Some(claimed));
            let is_first = ["10-10", "1-1", "4-4", "2-2"].contains(&expected);
            assert_eq!(claimed.follows_another(), is_first, "{expected}");
        }
    }
}
