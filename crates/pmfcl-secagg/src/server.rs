//! The server's side of a round.

use std::collections::{BTreeMap, BTreeSet};

use pmfcl::Summary;
use pmfcl::summary::Products;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::keys::{SEALED, commitment, own_mask, pair_mask, public};
use crate::mask::{Way, apply};
use crate::params::Params;
use crate::roster::{Member, Roster};
use crate::sharing::{Answers, Shares, scalar};
use crate::wire::{Kind, Reader, Tag, Writer};

/// A server in one round: for each of the four rounds it collects one message a client, in any order, then gives what is sent next.
///
/// Giving closes the collecting: what comes later is refused, and its sender is left out.
#[derive(Debug, Clone)]
pub struct Server {
    params: Params,
    tag: Tag,
    members: BTreeMap<String, Member>,
    roster: Option<Roster>,
    parcels: BTreeMap<u32, Parcel>,
    closed_shares: bool,
    inputs: BTreeSet<u32>,
    sum: Vec<u128>,
    closed_inputs: bool,
    signatures: BTreeMap<u32, [u8; 64]>,
    answers: Answers,
}

/// What a client sent in round 1.
#[derive(Debug, Clone)]
struct Parcel {
    /// Binds it to the seed of its own mask.
    commitment: [u8; 32],
    letters: BTreeMap<u32, [u8; SEALED]>,
}

/// What a round gives: the sum over the clients that stayed, and who they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// The sums of products over all rows of these clients.
    pub products: Products,
    /// Their names, in order.
    pub clients: Vec<String>,
}

impl Total {
    /// The summary of all their rows.
    ///
    /// # Errors
    /// When no rows have these sums: a client sent what no rows have.
    pub fn summary(&self) -> Result<Summary> {
        Ok(Summary::from_products(&self.products)?)
    }
}

impl Server {
    /// A server for one round.
    ///
    /// # Errors
    /// When the round id is invalid.
    pub fn new(round: &str, params: Params) -> Result<Self> {
        Ok(Self {
            params,
            tag: params.tag(round)?,
            members: BTreeMap::new(),
            roster: None,
            parcels: BTreeMap::new(),
            closed_shares: false,
            inputs: BTreeSet::new(),
            sum: vec![0; params.numbers()],
            closed_inputs: false,
            signatures: BTreeMap::new(),
            answers: BTreeMap::new(),
        })
    }

    /// Whose message it says it is, for a transport that knows its clients to compare before the message is collected.
    ///
    /// # Errors
    /// When it is no client's message of this round.
    pub fn sender(&self, message: &[u8]) -> Result<String> {
        if let Ok(member) = Member::from_bytes(&self.tag, &self.params, message) {
            return Ok(member.name);
        }
        let roster = self.opened("to say whose message it is")?;
        let kinds = [Kind::Shares, Kind::Masked, Kind::Confirmation, Kind::Answer];
        let found = kinds.into_iter().find_map(|kind| {
            let mut from = Reader::new(kind, &roster.session, message).ok()?;
            from.next_place(None, roster.len()).ok()
        });
        match found {
            Some(place) => Ok(roster.name(place).to_owned()),
            None => Err(Error::OtherRound { what: "the message" }),
        }
    }

    /// Round 0: takes a client's keys. Gives the name in them; that it is the sender's is for the transport to say.
    ///
    /// # Errors
    /// When the message is none, the name or a key is taken, or the roster is closed or full.
    pub fn collect_keys(&mut self, message: &[u8]) -> Result<String> {
        if self.roster.is_some() {
            return Err(closed("to take keys", "the roster has been given out"));
        }
        let member = Member::from_bytes(&self.tag, &self.params, message)?;
        member.check()?;
        let name = member.name.clone();
        let taken = self.members.values().any(|other| {
            [other.seal, other.mask].iter().any(|k| [member.seal, member.mask].contains(k))
        });
        if taken || member.seal == member.mask || self.members.contains_key(&name) {
            return Err(Error::Client {
                client: name,
                reason: "its name or one of its keys is on the roster already",
            });
        }
        if self.members.len() == self.params.clients() {
            return Err(Error::Client { client: name, reason: "the roster is full" });
        }
        self.members.insert(name.clone(), member);
        Ok(name)
    }

    /// The roster, for all clients on it.
    ///
    /// # Errors
    /// When there are fewer clients than the threshold; more may then be collected.
    pub fn roster(&mut self) -> Result<Vec<u8>> {
        if self.roster.is_none() {
            let members = self.members.values().cloned().collect();
            self.roster = Some(Roster::new(&self.tag, &self.params, members)?);
        }
        Ok(self.opened("to give a roster")?.to_bytes(&self.tag))
    }

    /// Round 1: takes a client's letters to the others. Gives its name.
    ///
    /// # Errors
    /// When the message is none, misses a member, comes a second time or too late.
    pub fn collect_shares(&mut self, message: &[u8]) -> Result<String> {
        let roster = self.opened("to take shares")?;
        if self.closed_shares {
            return Err(closed("to take shares", "inboxes have been given out"));
        }
        let mut from = Reader::new(Kind::Shares, &roster.session, message)?;
        let sender = from.next_place(None, roster.len())?;
        let commitment = from.array()?;
        let count = from.count(4 + SEALED)?;
        let mut letters = BTreeMap::new();
        for _ in 0..count {
            let last = letters.last_key_value().map(|(place, _)| *place);
            let place = from.next_place(last, roster.len())?;
            letters.insert(place, from.array()?);
        }
        from.end()?;
        let client = roster.name(sender).to_owned();
        if letters.contains_key(&sender) || letters.len() + 1 != roster.len() {
            let reason = "it has not written to each of the others";
            return Err(Error::Client { client, reason });
        }
        if self.parcels.contains_key(&sender) {
            return Err(Error::Client { client, reason: "its shares have come already" });
        }
        self.parcels.insert(sender, Parcel { commitment, letters });
        Ok(client)
    }

    /// The letters for one client.
    ///
    /// # Errors
    /// When fewer clients have shared than the threshold (more may then be collected), and for one that has not.
    pub fn inbox(&mut self, client: &str) -> Result<Vec<u8>> {
        let roster = self.opened("to give an inbox")?;
        self.enough("clients have shared their keys", self.parcels.len())?;
        let own = roster.place(client).filter(|place| self.parcels.contains_key(place));
        let Some(own) = own else {
            return Err(Error::Client {
                client: client.to_owned(),
                reason: "it has not shared its keys, so it is out of this round",
            });
        };
        let mut out = Writer::new(Kind::Inbox, &roster.session, 8 + self.parcels.len() * 84);
        out.size(own as usize).size(self.parcels.len() - 1);
        for (from, parcel) in &self.parcels {
            if let Some(letter) = parcel.letters.get(&own) {
                out.size(*from as usize).bytes(letter);
            }
        }
        self.closed_shares = true;
        Ok(out.done())
    }

    /// Round 2: takes a client's masked input. Gives its name.
    ///
    /// # Errors
    /// When the message is none, of a client that shared nothing, comes a second time or too late.
    pub fn collect_masked(&mut self, message: &[u8]) -> Result<String> {
        let roster = self.opened("to take an input")?;
        if !self.closed_shares || self.closed_inputs {
            return Err(closed(
                "to take an input",
                "inputs come after the inboxes and before the list of survivors",
            ));
        }
        let mut from = Reader::new(Kind::Masked, &roster.session, message)?;
        let sender = from.next_place(None, roster.len())?;
        let count = from.count(16)?;
        let numbers = from.take(16 * count)?;
        from.end()?;
        let client = roster.name(sender).to_owned();
        if count != self.sum.len() {
            let (what, expected) = ("a masked input", self.sum.len());
            return Err(Error::Shape { what, expected, found: count });
        }
        if !self.parcels.contains_key(&sender) {
            return Err(Error::Client { client, reason: "it has not shared its keys" });
        }
        if !self.inputs.insert(sender) {
            return Err(Error::Client { client, reason: "its input has come already" });
        }
        for (sum, bytes) in self.sum.iter_mut().zip(numbers.chunks_exact(16)) {
            let v = u128::from_le_bytes(bytes.try_into().expect("sixteen bytes"));
            *sum = sum.wrapping_add(v);
        }
        Ok(client)
    }

    /// Who has sent an input and who has not, for those who have.
    ///
    /// # Errors
    /// When fewer clients have sent an input than the threshold; more may then be collected.
    pub fn survivors(&mut self) -> Result<Vec<u8>> {
        let roster = self.opened("to list survivors")?;
        self.enough("masked inputs", self.inputs.len())?;
        let survivors: Vec<u32> = self.inputs.iter().copied().collect();
        let mut out = Writer::new(Kind::Survivors, &roster.session, 8 + 4 * self.parcels.len());
        out.places(&survivors).places(&self.dropped());
        self.closed_inputs = true;
        Ok(out.done())
    }

    /// In a signed round: takes a survivor's signature under the list. Gives its name. Whether it holds is for the clients to say.
    ///
    /// # Errors
    /// When the message is none, of a client that did not survive, comes a second time or too early, and in a round that is not signed.
    pub fn collect_confirmation(&mut self, message: &[u8]) -> Result<String> {
        let roster = self.opened("to take a signature")?;
        if !self.params.is_signed() || !self.closed_inputs {
            return Err(closed(
                "to take a signature",
                "signatures come in signed rounds, after the list of survivors",
            ));
        }
        let mut from = Reader::new(Kind::Confirmation, &roster.session, message)?;
        let sender = from.next_place(None, roster.len())?;
        let signature = from.array()?;
        from.end()?;
        let client = roster.name(sender).to_owned();
        if !self.inputs.contains(&sender) {
            return Err(Error::Client {
                client,
                reason: "it has sent no input, so it is not asked",
            });
        }
        if self.signatures.contains_key(&sender) {
            return Err(Error::Client { client, reason: "its signature has come already" });
        }
        self.signatures.insert(sender, signature);
        Ok(client)
    }

    /// In a signed round: the signatures, for those who gave one.
    ///
    /// # Errors
    /// When fewer clients have signed than the threshold; more may then be collected.
    pub fn confirmations(&self) -> Result<Vec<u8>> {
        let roster = self.opened("to give signatures")?;
        self.enough("signatures", self.signatures.len())?;
        let mut out = Writer::new(Kind::Confirmed, &roster.session, 4 + 68 * self.signatures.len());
        out.size(self.signatures.len());
        for (place, signature) in &self.signatures {
            out.size(*place as usize).bytes(signature);
        }
        Ok(out.done())
    }

    /// Round 3: takes a survivor's answer. Gives its name.
    ///
    /// # Errors
    /// When the message is none, of a client that did not survive, comes a second time or too early.
    pub fn collect_answer(&mut self, message: &[u8]) -> Result<String> {
        let roster = self.opened("to take an answer")?;
        if !self.closed_inputs {
            return Err(closed(
                "to take an answer",
                "the list of survivors has not been given out",
            ));
        }
        let mut from = Reader::new(Kind::Answer, &roster.session, message)?;
        let sender = from.next_place(None, roster.len())?;
        let count = from.count(36)?;
        let mut shares = BTreeMap::new();
        for _ in 0..count {
            let last = shares.last_key_value().map(|(place, _)| *place);
            let place = from.next_place(last, roster.len())?;
            shares.insert(place, Zeroizing::new(from.array()?));
        }
        from.end()?;
        let client = roster.name(sender).to_owned();
        let refuse = |reason| Err(Error::Client { client: client.clone(), reason });
        if !self.inputs.contains(&sender) {
            return refuse("it has sent no input, so it is not asked");
        }
        if !shares.keys().eq(self.parcels.keys()) {
            return refuse("its answer is not about those who have shared their keys");
        }
        if shares.values().any(|share| scalar(share).is_none()) {
            return refuse("a share in its answer is no scalar");
        }
        if self.answers.contains_key(&sender) {
            return refuse("its answer has come already");
        }
        self.answers.insert(sender, shares);
        Ok(client)
    }

    /// The sum over the survivors.
    ///
    /// Cost: one mask for each survivor, and one for each pair of a survivor and a dropped client.
    ///
    /// # Errors
    /// When fewer have answered than the threshold (more may then be collected), when no threshold of answers fits together, or the sum
    /// is outside what was agreed.
    pub fn finish(&self) -> Result<Total> {
        let roster = self.opened("to finish")?;
        self.enough("answers", self.answers.len())?;
        let session = &roster.session;
        let mut shares = Shares::new(&self.answers, self.params.threshold());
        let wrong = |place: u32| Error::Client {
            client: roster.name(place).to_owned(),
            reason: "the shares of its secret do not fit together, whoever's answers are left out: it has dealt wrong ones, or too many \
                     answers are wrong; start a round anew without it",
        };
        let mut sum = self.sum.clone();
        for place in &self.inputs {
            let committed = &self.parcels[place].commitment;
            let seed = shares
                .secret(*place, |seed| commitment(seed, session) == *committed)
                .ok_or_else(|| wrong(*place))?;
            apply(&own_mask(&seed, session), Way::Take, &mut sum);
        }
        for gone in self.dropped() {
            let shown = &roster.members[gone as usize].mask;
            let key =
                shares.secret(gone, |key| public(key) == *shown).ok_or_else(|| wrong(gone))?;
            for place in &self.inputs {
                let theirs = &roster.members[*place as usize].mask;
                let mask = pair_mask(&key, theirs, session, (gone, *place));
                // Against what the survivor did.
                apply(&mask, if *place < gone { Way::Take } else { Way::Add }, &mut sum);
            }
        }
        let products = self.params.fixed().products(&self.params, self.inputs.len(), &sum)?;
        let clients = self.inputs.iter().map(|place| roster.name(*place).to_owned()).collect();
        Ok(Total { products, clients })
    }

    /// Clients that shared their keys and sent no input.
    fn dropped(&self) -> Vec<u32> {
        self.parcels.keys().filter(|place| !self.inputs.contains(place)).copied().collect()
    }

    fn opened(&self, call: &'static str) -> Result<&Roster> {
        self.roster.as_ref().ok_or(closed(call, "the roster has not been given out"))
    }

    fn enough(&self, what: &'static str, found: usize) -> Result<()> {
        let threshold = self.params.threshold();
        if found < threshold { Err(Error::TooFew { what, found, threshold }) } else { Ok(()) }
    }
}

fn closed(call: &'static str, reason: &'static str) -> Error {
    Error::Turn { call, reason }
}
