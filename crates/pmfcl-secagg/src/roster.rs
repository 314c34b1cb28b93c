//! Who takes part in a round, with which keys. A client's place on it is its number from then on.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::keys::{hash, is_sound};
use crate::params::Params;
use crate::wire::{Kind, Reader, Tag, Writer};

/// The public keys of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// For letters.
    pub(crate) seal: [u8; 32],
    /// For masks.
    pub(crate) mask: [u8; 32],
    /// Of both, in a signed round.
    pub(crate) signature: Option<[u8; 64]>,
}

impl Member {
    pub(crate) fn to_bytes(&self, tag: &Tag) -> Vec<u8> {
        let mut out = Writer::new(Kind::Keys, tag, 65 + self.name.len());
        self.write(&mut out);
        out.done()
    }

    pub(crate) fn from_bytes(tag: &Tag, params: &Params, bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new(Kind::Keys, tag, bytes)?;
        let member = Self::read(&mut from, params)?;
        from.end()?;
        Ok(member)
    }

    fn write(&self, out: &mut Writer) {
        out.text(&self.name).bytes(&self.seal).bytes(&self.mask);
        out.bytes(self.signature.as_ref().map_or(&[], |s| s));
    }

    fn read(from: &mut Reader<'_>, params: &Params) -> Result<Self> {
        Ok(Self {
            name: from.text()?.to_owned(),
            seal: from.array()?,
            mask: from.array()?,
            signature: if params.is_signed() { Some(from.array()?) } else { None },
        })
    }

    /// What a client signs: these keys are its own, in this round.
    pub(crate) fn claim(&self, tag: &Tag) -> Tag {
        hash(&[b"keys", tag, self.name.as_bytes(), &self.seal, &self.mask])
    }

    /// Keys that make no secret would make masks everyone knows.
    pub(crate) fn check(&self) -> Result<()> {
        if is_sound(&self.seal) && is_sound(&self.mask) {
            return Ok(());
        }
        Err(Error::Client {
            client: self.name.clone(),
            reason: "its public key is a point of small order, with which no secret can be agreed",
        })
    }
}

/// Who takes part, in the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) members: Vec<Member>,
    /// The hash of round, parameters and roster: whoever was shown another roster has another one, and no message of theirs fits.
    pub(crate) session: Tag,
}

impl Roster {
    pub(crate) fn new(tag: &Tag, params: &Params, members: Vec<Member>) -> Result<Self> {
        let refuse = |reason: String| Err(Error::Refused { reason });
        if members.len() < params.threshold() {
            return Err(Error::TooFew {
                what: "clients on the roster",
                found: members.len(),
                threshold: params.threshold(),
            });
        }
        if members.len() > params.clients() {
            return refuse(format!(
                "the roster has {} clients, at most {} were agreed",
                members.len(),
                params.clients()
            ));
        }
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            return refuse(format!("`{}` is twice on the roster, or out of order", pair[1].name));
        }
        let mut seen = BTreeSet::new();
        for member in &members {
            member.check()?;
            if !seen.insert(member.seal) || !seen.insert(member.mask) {
                return refuse(format!("a key of `{}` is twice on the roster", member.name));
            }
        }
        let mut roster = Self { members, session: [0; 32] };
        roster.session = hash(&[b"session", &roster.to_bytes(tag)]);
        Ok(roster)
    }

    pub(crate) fn to_bytes(&self, tag: &Tag) -> Vec<u8> {
        let mut out = Writer::new(Kind::Roster, tag, 4 + 80 * self.members.len());
        self.write(&mut out);
        out.done()
    }

    pub(crate) fn from_bytes(tag: &Tag, params: &Params, bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new(Kind::Roster, tag, bytes)?;
        let members = Self::read(&mut from, params)?;
        from.end()?;
        Self::new(tag, params, members)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.size(self.members.len());
        self.members.iter().for_each(|member| member.write(out));
    }

    /// The members, not checked yet.
    pub(crate) fn read(from: &mut Reader<'_>, params: &Params) -> Result<Vec<Member>> {
        let count = from.count(66)?;
        (0..count).map(|_| Member::read(from, params)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn place(&self, name: &str) -> Option<u32> {
        self.members.binary_search_by(|m| m.name.as_str().cmp(name)).ok().map(|at| at as u32)
    }

    /// The other members.
    pub(crate) fn peers(&self, own: u32) -> impl Iterator<Item = (u32, &Member)> {
        (0..).zip(&self.members).filter(move |(place, _)| *place != own)
    }

    pub(crate) fn name(&self, place: u32) -> &str {
        &self.members[place as usize].name
    }
}
