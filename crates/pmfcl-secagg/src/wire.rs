//! Messages as bytes: little-endian, versioned, every length checked, nothing left over.
//!
//! ```text
//! "PMFS" | version u16 | kind u8 | 0 u8 | tag 32 bytes | body
//! ```
//!
//! The tag is a hash of round and parameters, and from the roster on of the roster too: a message of another round is told apart
//! before its body is read.

use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"PMFS";
const VERSION: u16 = 2;

/// A hash all sides compute for themselves.
pub(crate) type Tag = [u8; 32];

/// The messages, and the client's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Keys = 1,
    Roster = 2,
    Shares = 3,
    Inbox = 4,
    Masked = 5,
    Survivors = 6,
    Answer = 7,
    State = 8,
    Confirmation = 9,
    Confirmed = 10,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keys => "a client's keys",
            Self::Roster => "a roster",
            Self::Shares => "a client's shares",
            Self::Inbox => "an inbox",
            Self::Masked => "a masked input",
            Self::Survivors => "a list of survivors",
            Self::Answer => "a client's answer",
            Self::State => "a client's state",
            Self::Confirmation => "a client's signature",
            Self::Confirmed => "a list of signatures",
        }
    }

    pub(crate) fn wrong(self, reason: impl Into<String>) -> Error {
        Error::Bytes { what: self.name(), reason: reason.into() }
    }
}

/// A message being written.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: Kind, tag: &Tag, body: usize) -> Self {
        let mut out = Vec::with_capacity(40 + body);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[kind as u8, 0]);
        out.extend_from_slice(tag);
        Self(out)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn size(&mut self, size: usize) -> &mut Self {
        let size = u32::try_from(size).expect("parameters bound every length");
        self.bytes(&size.to_le_bytes())
    }

    /// Text of at most 255 bytes.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let length = u8::try_from(text.len()).expect("names are at most 255 bytes");
        self.bytes(&[length]).bytes(text.as_bytes())
    }

    pub(crate) fn places(&mut self, places: &[u32]) -> &mut Self {
        self.size(places.len());
        places.iter().for_each(|p| self.0.extend_from_slice(&p.to_le_bytes()));
        self
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// A message being read.
pub(crate) struct Reader<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the header; `tag` is the one this side computed.
    pub(crate) fn new(kind: Kind, tag: &Tag, bytes: &'a [u8]) -> Result<Self> {
        let (found, reader) = Self::any_tag(kind, bytes)?;
        if found != *tag {
            return Err(Error::OtherRound { what: kind.name() });
        }
        Ok(reader)
    }

    pub(crate) fn any_tag(kind: Kind, bytes: &'a [u8]) -> Result<(Tag, Self)> {
        let mut reader = Self { kind, rest: bytes };
        if &reader.array::<4>()? != MAGIC {
            return Err(kind.wrong("it does not begin with PMFS"));
        }
        let version = u16::from_le_bytes(reader.array()?);
        if version != VERSION {
            return Err(
                kind.wrong(format!("version {version}; this program reads version {VERSION}"))
            );
        }
        if reader.array()? != [kind as u8, 0] {
            return Err(kind.wrong("it is another message"));
        }
        Ok((reader.array()?, reader))
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.kind.wrong("it is cut off"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many were taken"))
    }

    pub(crate) fn place(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn word(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// How many items of `each` bytes follow; no more than there are bytes for.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize> {
        let count = self.place()? as usize;
        if count.saturating_mul(each) > self.rest.len() {
            return Err(self.kind.wrong("it is cut off"));
        }
        Ok(count)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let [length] = self.array()?;
        let text = std::str::from_utf8(self.take(usize::from(length))?).ok();
        text.filter(|t| is_name(t)).ok_or_else(|| self.kind.wrong("a name is invalid"))
    }

    /// Places on the roster, in ascending order.
    pub(crate) fn places(&mut self, below: usize) -> Result<Vec<u32>> {
        let count = self.count(4)?;
        let mut places = Vec::with_capacity(count);
        for _ in 0..count {
            let place = self.next_place(places.last().copied(), below)?;
            places.push(place);
        }
        Ok(places)
    }

    /// A place on the roster above the last one.
    pub(crate) fn next_place(&mut self, last: Option<u32>, below: usize) -> Result<u32> {
        let place = self.place()?;
        if last.is_some_and(|last| place <= last) || place as usize >= below {
            return Err(self.kind.wrong("places on the roster do not ascend or are not on it"));
        }
        Ok(place)
    }

    pub(crate) fn end(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.kind.wrong("bytes are left over")) }
    }
}

/// Whether a client or round may be called so; as in `pmfcl::federated`.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control)
}
