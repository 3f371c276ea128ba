//! A value with its hash, which is computed once: most steps change one part of a state.

use std::{
    fmt::{self, Debug, Write},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

/// A shared value that counts as equal to another whose debug text is equal: types of the core have no hash, and keep
/// their maps in order.
pub(crate) struct Hashed<T> {
    value: Arc<T>,
    hash: u64,
}

impl<T: Debug> Hashed<T> {
    pub(crate) fn new(value: T) -> Self {
        let mut text = Text(DefaultHasher::new());
        write!(text, "{value:?}").expect("a hash takes every text");
        Self {
            value: Arc::new(value),
            hash: text.0.finish(),
        }
    }

    pub(crate) const fn arc(&self) -> &Arc<T> {
        &self.value
    }
}

struct Text(DefaultHasher);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl<T> Clone for Hashed<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            hash: self.hash,
        }
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Debug for Hashed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.hash)
    }
}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<T> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl<T> Eq for Hashed<T> {}
