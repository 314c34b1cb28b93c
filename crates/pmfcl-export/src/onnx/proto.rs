//! Protocol buffers, as far as ONNX needs them: a message is a list of numbered fields, and a field is a variable-length
//! integer or a run of bytes.
//!
//! Fields are written in the order they are given; the callers keep to that of their numbers.

/// A message being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

/// How a field is laid out: the low three bits of its key.
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    /// A whole number, negative ones as their two's complement.
    pub(crate) fn whole(mut self, field: u32, value: i64) -> Self {
        self.key(field, VARINT);
        self.varint(value as u64);
        self
    }

    /// A run of bytes.
    pub(crate) fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Text in UTF-8.
    pub(crate) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// A message inside this one.
    pub(crate) fn message(self, field: u32, inner: &Message) -> Self {
        self.bytes(field, &inner.0)
    }

    /// A repeated message.
    pub(crate) fn messages(self, field: u32, inner: &[Message]) -> Self {
        inner.iter().fold(self, |all, one| all.message(field, one))
    }

    /// The message as it is sent.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, layout: u64) {
        self.varint(u64::from(field) << 3 | layout);
    }

    /// Seven bits a byte, the lowest first; all bytes but the last have the top bit set.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_guide_come_out() {
        // protobuf.dev, "Encoding": field 1 = 150, field 2 = "testing", and a message in field 3.
        let inner = Message::default().whole(1, 150);
        assert_eq!(inner.clone().finish(), [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing").finish();
        assert_eq!(text, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let outer = Message::default().message(3, &inner).finish();
        assert_eq!(outer, [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes_and_a_high_field_two_for_its_key() {
        let bytes = Message::default().whole(1, -2).finish();
        assert_eq!(bytes, [8, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!(Message::default().whole(20, 2).finish(), [0xa0, 0x01, 0x02]);
    }
}
