//! The heads of HTTP/2 frames in a stream of bytes (RFC 9113, section 4.1).

/// The bytes that a client sends before its first frame.
const PREFACE: usize = 24;
/// The bytes of a frame's head.
const HEAD: usize = 9;

/// Reads one direction of a connection, in pieces of any size.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes to pass over before the next head.
    skip: usize,
    head: Vec<u8>,
}

/// The head of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    kind: u8,
    flags: u8,
}

impl Frame {
    /// It begins the headers or the trailers of a call.
    pub(super) const fn is_headers(self) -> bool {
        self.kind == 1
    }

    /// It ends one direction of a call.
    pub(super) const fn ends_stream(self) -> bool {
        matches!(self.kind, 0 | 1) && self.flags & 1 == 1 || self.kind == 3
    }
}

impl Frames {
    pub(super) const fn of_client() -> Self {
        Self {
            skip: PREFACE,
            head: Vec::new(),
        }
    }

    pub(super) const fn of_server() -> Self {
        Self {
            skip: 0,
            head: Vec::new(),
        }
    }

    /// The frames whose heads end in these bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> std::vec::IntoIter<Frame> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = &bytes[passed..];
            let taken = (HEAD - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let [a, b, c, kind, flags, ..] = *self.head
                && self.head.len() == HEAD
            {
                self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                found.push(Frame { kind, flags });
                self.head.clear();
            }
        }
        found.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_pieces_of_any_size() {
        let mut bytes = vec![b'x'; PREFACE];
        bytes.extend([0, 0, 3, 4, 0, 0, 0, 0, 0, 7, 7, 7]);
        bytes.extend([0, 0, 1, 1, 5, 0, 0, 0, 1, 7]);
        bytes.extend([0, 0, 0, 0, 1, 0, 0, 0, 1]);
        for size in 1..=bytes.len() {
            let mut frames = Frames::of_client();
            let found: Vec<_> = bytes
                .chunks(size)
                .flat_map(|piece| frames.read(piece))
                .collect();
            let kinds: Vec<_> = found.iter().map(|frame| frame.kind).collect();
            assert_eq!(kinds, [4, 1, 0], "pieces of {size}");
            assert!(!found[0].ends_stream() && found[1].is_headers() && found[2].ends_stream());
        }
    }
}
