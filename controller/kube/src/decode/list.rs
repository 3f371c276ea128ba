//! A list whose objects are taken out of it one by one as its bytes arrive: a page of a hundred objects may be of any size,
//! and only one of them is in memory at a time.
//!
//! [`crate::api::Api::list`] feeds it chunks and gets each object at its end; a list that breaks off is an error.

use memchr::memchr2;

use super::{Frame, ListMeta, object};
use crate::error::ApiError;

/// How deep the objects of a list are: in the object of the list, in its only array.
const DEPTH: usize = 2;

/// Reads the JSON of a list.
#[derive(Default)]
pub(crate) struct ListReader {
    /// Everything but the objects.
    frame: Vec<u8>,
    /// The begin of an object.
    object: Vec<u8>,
    depth: usize,
    is_in_items: bool,
    is_in_text: bool,
    is_escaped: bool,
}

impl ListReader {
    /// Calls `each` with each object that ends in `bytes`, which follow those of the last call.
    pub(crate) fn read(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        // The first of the bytes that are not in `frame` or `object` yet.
        let mut begin = 0;
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            at += 1;
            if self.is_in_text {
                if self.is_escaped {
                    self.is_escaped = false;
                } else if byte == b'"' {
                    self.is_in_text = false;
                } else if byte == b'\\' {
                    self.is_escaped = true;
                } else {
                    let rest = bytes.get(at..).unwrap_or_default();
                    at += memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                }
                continue;
            }
            match byte {
                b'"' => self.is_in_text = true,
                b'{' | b'[' => {
                    if self.is_in_items && self.depth == DEPTH {
                        self.frame
                            .extend_from_slice(bytes.get(begin..at - 1).unwrap_or_default());
                        begin = at - 1;
                    }
                    self.depth += 1;
                    self.is_in_items |= byte == b'[' && self.depth == DEPTH;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.is_in_items && self.depth == DEPTH {
                        let end = bytes.get(begin..at).unwrap_or_default();
                        if self.object.is_empty() {
                            each(end);
                        } else {
                            self.object.extend_from_slice(end);
                            each(&self.object);
                            self.object.clear();
                        }
                        // In the place of the object.
                        self.frame.push(b'0');
                        begin = at;
                    }
                    self.is_in_items &= self.depth >= DEPTH;
                }
                _ => {}
            }
        }
        let is_in_object = self.is_in_items && self.depth > DEPTH;
        let rest = bytes.get(begin..).unwrap_or_default();
        if is_in_object {
            self.object.extend_from_slice(rest);
        } else {
            self.frame.extend_from_slice(rest);
        }
    }

    /// Where the list stands, once all its bytes are read.
    pub(crate) fn end(self) -> Result<ListMeta, ApiError> {
        object::<Frame>(&self.frame).map(|frame| frame.metadata)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::tests::any_json;
    use super::*;

    /// The objects of `json` that comes in pieces of `piece` bytes, and where it stands.
    fn read(json: &str, piece: usize) -> (Vec<String>, Result<ListMeta, ApiError>) {
        let mut reader = ListReader::default();
        let mut objects = Vec::new();
        for bytes in json.as_bytes().chunks(piece) {
            reader.read(bytes, |object| {
                objects.push(String::from_utf8(object.to_vec()).unwrap());
            });
        }
        (objects, reader.end())
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error() {
        let list = json!({"items": [{"a": "]}"}, {}], "metadata": {"resourceVersion": "7"}});
        let list = list.to_string();
        let (objects, meta) = read(&list, 3);
        assert_eq!(objects, [r#"{"a":"]}"}"#, "{}"]);
        assert_eq!(meta.unwrap().resource_version, "7");
        for length in 0..list.len() {
            let (objects, meta) = read(&list[..length], 5);
            assert!(objects.len() <= 2);
            meta.unwrap_err();
        }
        // An empty list, and null, which Go writes for an empty list.
        for items in [json!([]), Value::Null] {
            let list = json!({"metadata": {"continue": "x"}, "items": items}).to_string();
            let (objects, meta) = read(&list, 7);
            assert_eq!((objects.len(), &*meta.unwrap().r#continue), (0, "x"));
        }
    }

    #[test]
    fn one_object_is_in_memory_at_a_time() {
        let mut reader = ListReader::default();
        let object = json!({"metadata": {"annotations": {"a": "x".repeat(10_000)}}}).to_string();
        let mut count = 0;
        reader.read(br#"{"kind":"ServiceList","items":["#, |_| count += 1);
        for _ in 0..1_000 {
            for bytes in object.as_bytes().chunks(4_096) {
                reader.read(bytes, |_| count += 1);
            }
            reader.read(b",", |_| count += 1);
        }
        assert_eq!(count, 1_000);
        let kept = reader.frame.capacity() + reader.object.capacity();
        assert!(kept < 40_000, "{kept}");
    }

    proptest! {
        #[test]
        fn objects_are_those_of_the_whole(
            before in any_json(),
            items in prop::collection::vec(
                prop::collection::btree_map("[a-z\"\\\\{}\\[\\],]{0,4}", any_json(), 0..3), 0..4,
            ),
            after in any_json(),
            piece in 1_usize..40,
        ) {
            let before = json!({"x": before});
            let list = format!(
                r#"{{"before":{before}, "items": {}, "metadata":{{"resourceVersion":"1"}},"x":{{"after":{after}}}}}"#,
                json!(items),
            );
            let (objects, meta) = read(&list, piece);
            let items: Vec<_> = items.iter().map(|item| json!(item).to_string()).collect();
            prop_assert_eq!(objects, items);
            prop_assert_eq!(meta.unwrap().resource_version, "1");
        }
    }
}
