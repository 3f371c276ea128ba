//! The store of a replica: the objects that it holds by their places, and the events of its watch that have not arrived.

#[derive(Clone, Hash)]
pub(crate) struct Store<T> {
    pub(crate) held: [Option<T>; 2],
    coming: Vec<(usize, Option<T>)>,
}

/// An event that has arrived.
pub(crate) struct Arrived<T> {
    pub(crate) name: usize,
    /// The object that was held before.
    pub(crate) old: Option<T>,
    /// False if the store holds something newer, and has kept it.
    pub(crate) is_news: bool,
}

impl<T: Copy> Store<T> {
    /// A store after a list.
    pub(crate) const fn listed(held: [Option<T>; 2]) -> Self {
        Self {
            held,
            coming: Vec::new(),
        }
    }

    /// The API server sends an event; none is a deletion.
    pub(crate) fn send(&mut self, name: usize, object: Option<T>) {
        self.coming.push((name, object));
    }

    pub(crate) const fn has_next(&self) -> bool {
        !self.coming.is_empty()
    }

    /// The next event arrives. `is_old` compares its object with the one that is held.
    pub(crate) fn next(&mut self, is_old: impl Fn(T, T) -> bool) -> Arrived<T> {
        let (name, object) = self.coming.remove(0);
        let old = self.held[name];
        let is_news = object.is_none_or(|new| old.is_none_or(|old| !is_old(new, old)));
        if is_news {
            self.held[name] = object;
        }
        Arrived { name, old, is_news }
    }
}
