//! Digests of what is wanted, kept in the cluster and compared by later releases.
//!
//! The last-applied hash of a Service, the revision of targets and the mark of a labelled volume are made here: a caller
//! opens an [`Encoder`] under a name of its own, writes each field, and finishes it. Equal fields have equal digests in
//! every release. So a field that is added, left out or spelled otherwise changes every stored digest, and each object is
//! asked about once more.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The first half of a SHA-256. Half of it is far beyond chance, and what is hashed is written by
/// others: a checksum could be met on purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest([u8; 16]);

impl fmt::Display for Digest {
    /// 32 hexadecimal digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes fields one after the other, so that no two different lists of fields give the same bytes:
/// a text is its length in bytes (64 bits, big endian) and its bytes (UTF-8); a number is the text
/// of its decimal digits; a list is the number of its entries and each entry; what may be absent is
/// a list of none or one.
pub(crate) struct Encoder(Sha256);

impl Encoder {
    /// `purpose` names what is hashed and the revision of its encoding: one that changes needs
    /// another name.
    pub(crate) fn new(purpose: &str) -> Self {
        let mut encoder = Self(Sha256::new());
        encoder.text(purpose);
        encoder
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: impl Into<i64>) {
        self.text(&number.into().to_string());
    }

    pub(crate) fn list<T>(
        &mut self,
        entries: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.text(&entries.len().to_string());
        for entry in entries {
            write(self, entry);
        }
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, texts: &[T]) {
        self.list(texts.iter(), |encoder, text| encoder.text(text.as_ref()));
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnMut(&mut Self, T)) {
        self.list(value.into_iter(), write);
    }

    pub(crate) fn finish(self) -> Digest {
        let mut half = [0; 16];
        for (byte, of_whole) in half.iter_mut().zip(self.0.finalize()) {
            *byte = of_whole;
        }
        Digest(half)
    }
}

#[cfg(test)]
mod tests {
    use super::Encoder;

    fn digest(texts: &[&str]) -> String {
        let mut encoder = Encoder::new("test 1");
        for text in texts {
            encoder.text(text);
        }
        encoder.finish().to_string()
    }

    /// Worked out by hand: `printf` of the lengths and texts into `sha256sum`, its first half.
    #[test]
    fn the_encoding_never_changes() {
        assert_eq!(digest(&[]), "d6d45f76e3a094818b60fa2f4831fb7b");
        assert_eq!(digest(&["a", "bc"]), "9c150264d114b23122632641b58e5757");
    }

    #[test]
    fn where_a_text_ends_makes_a_difference() {
        assert_ne!(digest(&["a", "bc"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["a"]), digest(&["a", ""]));
    }

    #[test]
    fn an_absent_value_is_no_empty_one() {
        let option = |value: Option<&str>| {
            let mut encoder = Encoder::new("test 1");
            encoder.option(value, Encoder::text);
            encoder.finish()
        };
        assert_ne!(option(None), option(Some("")));
    }
}
