//! The GOAWAY frame among the bytes that an HTTP/2 server sends.
//!
//! hyper tells nothing of it: new calls end with "connection closed", and the connection itself ends with its
//! last call, minutes later.

use outrigger_core::text;

/// Bytes before the payload of a frame: length, type, flags, stream (RFC 9113, 4.1).
const HEADER: usize = 9;
/// Type of the frame (RFC 9113, 6.8).
const GOAWAY: u8 = 7;
/// Bytes before the debug data: last stream, error code.
const BEFORE_TEXT: usize = 8;
/// Bytes of debug data that are kept.
const MAX_TEXT: usize = 256;
/// Names of the error codes (RFC 9113, 7).
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// Follows the frames from the first byte of a connection on.
#[derive(Debug, Default)]
pub(super) struct GoAwayReader {
    header: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: usize,
    /// Payload of a GOAWAY, as far as it is kept.
    payload: Vec<u8>,
}

impl GoAwayReader {
    /// Reads the next bytes. Returns the reason that the server gave, for people, once a GOAWAY is whole.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Option<String> {
        let mut reason = None;
        while !bytes.is_empty() {
            let missing = HEADER - self.header.len();
            if missing > 0 {
                let (head, rest) = bytes.split_at(missing.min(bytes.len()));
                self.header.extend_from_slice(head);
                bytes = rest;
                let [a, b, c, ..] = *self.header else {
                    continue;
                };
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            }
            if self.header.len() < HEADER {
                continue;
            }
            let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= payload.len();
            bytes = rest;
            let is_goaway = self.header.get(3) == Some(&GOAWAY);
            if is_goaway {
                let room = (BEFORE_TEXT + MAX_TEXT).saturating_sub(self.payload.len());
                self.payload.extend(payload.iter().take(room));
            }
            if self.left == 0 {
                self.header.clear();
                if is_goaway {
                    reason = Some(told(&std::mem::take(&mut self.payload)));
                }
            }
        }
        reason
    }
}

/// `NO_ERROR, "max_age"`
fn told(payload: &[u8]) -> String {
    let code = payload
        .get(4..BEFORE_TEXT)
        .and_then(|code| <[u8; 4]>::try_from(code).ok())
        .map_or(0, u32::from_be_bytes);
    let name = CODES.get(code as usize).copied().unwrap_or("unknown code");
    let debug = String::from_utf8_lossy(payload.get(BEFORE_TEXT..).unwrap_or_default());
    if debug.is_empty() {
        return name.to_owned();
    }
    format!("{name}, \"{}\"", text::message(&debug))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        frame
    }

    fn goaway(code: u32, debug: &[u8]) -> Vec<u8> {
        let mut payload = vec![0x7f, 0xff, 0xff, 0xff];
        payload.extend(code.to_be_bytes());
        payload.extend(debug);
        frame(GOAWAY, &payload)
    }

    #[test]
    fn code_and_debug_data_are_shown() {
        let reason = |bytes: &[u8]| GoAwayReader::default().read(bytes);
        assert_eq!(reason(&goaway(0, b"")).as_deref(), Some("NO_ERROR"));
        assert_eq!(
            reason(&goaway(0, b"max_age")).as_deref(),
            Some("NO_ERROR, \"max_age\"")
        );
        assert_eq!(
            reason(&goaway(11, b"too_many_pings\n")).as_deref(),
            Some("ENHANCE_YOUR_CALM, \"too_many_pings\\n\"")
        );
        assert_eq!(reason(&goaway(99, b"")).as_deref(), Some("unknown code"));
        // Shorter than the RFC allows.
        assert_eq!(reason(&frame(GOAWAY, b"")).as_deref(), Some("NO_ERROR"));
        let long = reason(&goaway(0, &vec![b'a'; 100_000])).unwrap();
        assert!(long.len() < 2 * MAX_TEXT, "{} bytes", long.len());
    }

    #[test]
    fn other_frames_are_none() {
        let mut bytes = frame(4, &[0; 6]);
        bytes.extend(frame(0, &goaway(0, b"inside of data")));
        bytes.extend(frame(4, b""));
        assert_eq!(GoAwayReader::default().read(&bytes), None);
    }

    proptest! {
        #[test]
        fn it_is_found_however_the_bytes_are_cut(
            before in prop::collection::vec((0_u8..7, prop::collection::vec(any::<u8>(), 0..40)), 0..5),
            cuts in prop::collection::vec(1_usize..30, 1..60),
        ) {
            let mut bytes: Vec<u8> =
                before.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
            bytes.extend(goaway(0, b"max_idle"));
            let mut reader = GoAwayReader::default();
            let mut rest = &*bytes;
            let mut cuts = cuts.into_iter().cycle();
            let mut found = None;
            while !rest.is_empty() {
                prop_assert_eq!(&found, &None, "before its last byte");
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                found = reader.read(part);
                rest = after;
            }
            prop_assert_eq!(found.as_deref(), Some("NO_ERROR, \"max_idle\""));
        }
    }
}
