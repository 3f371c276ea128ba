//! A set of numbers, one bit each, with a search that does not grow with the number of bits.

use std::ops::RangeInclusive;

/// Bits of a word.
const WORD: u64 = u64::BITS as u64;
/// Words of a page: 4 KiB.
const PAGE: usize = 512;

/// Bits from 0 to `len`, and above them levels of summaries: a bit of a level says that a whole word
/// of the level below it is ones. Pages are allocated once they have a one, so that the largest
/// IPv4 pool takes no half a gigabyte at the start.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    len: u64,
    ones: u64,
    levels: Vec<Level>,
}

/// Words by page.
type Level = Vec<Option<Box<[u64; PAGE]>>>;

impl Bitmap {
    /// `len` zeros.
    pub(super) fn new(len: u64) -> Self {
        let mut levels = Vec::new();
        let mut words = len;
        loop {
            words = words.div_ceil(WORD);
            let pages = words.div_ceil(PAGE as u64) as usize;
            levels.push(vec![None; pages]);
            if words <= 1 {
                break;
            }
        }
        Self {
            len,
            ones: 0,
            levels,
        }
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) const fn ones(&self) -> u64 {
        self.ones
    }

    /// Bytes of all pages that are there.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let pages = self.levels.iter().flatten().flatten();
        pages.map(|page| size_of_val(&**page)).sum()
    }

    /// How many of `bits` are ones.
    pub(super) fn ones_in(&self, bits: &RangeInclusive<u64>) -> u64 {
        let words = bits.start() / WORD..=bits.end() / WORD;
        let ones = |at| u64::from((self.word(0, at) & mask(at, bits)).count_ones());
        words.map(ones).sum()
    }

    /// Makes `bits` ones or zeros.
    pub(super) fn put(&mut self, bits: RangeInclusive<u64>, one: bool) {
        let words = bits.start() / WORD..=bits.end() / WORD;
        for at in words {
            let before = self.word(0, at);
            let mask = mask(at, &bits);
            let after = if one { before | mask } else { before & !mask };
            self.ones = self.ones + u64::from(after.count_ones()) - u64::from(before.count_ones());
            self.set_word(0, at, after);
        }
        let (mut first, mut last) = bits.into_inner();
        for level in 1..self.levels.len() {
            (first, last) = (first / WORD, last / WORD);
            for at in first..=last {
                let (word, bit) = (self.word(level, at / WORD), 1 << (at % WORD));
                let is_full = self.word(level - 1, at) == u64::MAX;
                let word = if is_full { word | bit } else { word & !bit };
                self.set_word(level, at / WORD, word);
            }
        }
    }

    /// The first zero from `from` on.
    pub(super) fn next_zero(&self, from: u64) -> Option<u64> {
        let zero = self.search(from, |level, at| self.word(level, at));
        zero.filter(|zero| *zero < self.len)
    }

    /// The first zero from `from` on, at or after `len` if there is none: up the levels until a word
    /// has a zero behind the place, and down again along the first zeros.
    pub(super) fn search(&self, from: u64, mut word: impl FnMut(usize, u64) -> u64) -> Option<u64> {
        let mut place = from;
        for level in 0..self.levels.len() {
            let before = (1 << (place % WORD)) - 1;
            let ones = (word(level, place / WORD) | before).trailing_ones();
            if u64::from(ones) < WORD {
                let mut zero = place / WORD * WORD + u64::from(ones);
                for below in (0..level).rev() {
                    zero = zero * WORD + u64::from(word(below, zero).trailing_ones());
                }
                return Some(zero);
            }
            place = place / WORD + 1;
        }
        None
    }

    /// A word that is not there has no ones, nor has one after the end.
    fn word(&self, level: usize, at: u64) -> u64 {
        let page = self
            .levels
            .get(level)
            .and_then(|pages| pages.get(at as usize / PAGE));
        let page = page.and_then(Option::as_deref);
        page.and_then(|words| words.get(at as usize % PAGE))
            .copied()
            .unwrap_or(0)
    }

    fn set_word(&mut self, level: usize, at: u64, word: u64) {
        let page = self
            .levels
            .get_mut(level)
            .and_then(|pages| pages.get_mut(at as usize / PAGE));
        if let Some(page) = page
            && (page.is_some() || word > 0)
            && let Some(old) = page
                .get_or_insert_with(|| Box::new([0; PAGE]))
                .get_mut(at as usize % PAGE)
        {
            *old = word;
        }
    }
}

/// The bits of the word at `at` that are in `bits`.
fn mask(at: u64, bits: &RangeInclusive<u64>) -> u64 {
    let first = bits.start().saturating_sub(at * WORD);
    let last = (bits.end() - at * WORD).min(WORD - 1);
    (u64::MAX >> (WORD - 1 - last)) & (u64::MAX << first)
}

#[cfg(test)]
mod tests;
