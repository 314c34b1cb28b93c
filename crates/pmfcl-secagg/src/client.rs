//! A client's side of a round.

use std::collections::BTreeMap;
use std::fmt;

use curve25519_dalek::Scalar;
use pmfcl::summary::Products;
use rand_core::TryCryptoRng;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::keys::{
    Letter, SEALED, SHARES, commitment, derive, derive_scalar, own_mask, pair_mask, public,
};
use crate::mask::{Way, apply};
use crate::params::Params;
use crate::roster::{Member, Roster};
use crate::sharing::{Bytes, Polynomial, scalar};
use crate::wire::{Kind, Reader, Tag, Writer, is_name};

/// The shares a client holds of a member: of its mask key, then of the seed of its own mask.
type Held = BTreeMap<u32, Zeroizing<[u8; SHARES]>>;

/// A client in one round. Each call is one message; out of turn or a second time it is refused.
///
/// All its secrets are derived from one seed drawn at the start.
pub struct Client {
    round: String,
    name: String,
    params: Params,
    tag: Tag,
    /// Empty of meaning once the round is over.
    seed: Zeroizing<[u8; 32]>,
    turn: Turn,
}

enum Turn {
    /// Waits for the roster.
    Keys,
    /// Waits for the letters of the others.
    Shares(Roster),
    /// Waits for the list of survivors.
    Masked(Roster, Held),
    /// Has answered, or will never.
    Over,
}

impl fmt::Debug for Client {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("round", &self.round)
            .field("name", &self.name)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for one round. `random` is [`SysRng`](crate::SysRng) but in tests: whoever knows its numbers knows the summary.
    ///
    /// A round id is used once: a client that takes part in two rounds with different sums shows the difference of the two.
    ///
    /// # Errors
    /// When a name makes no sense or there are no random numbers.
    pub fn new(
        round: &str,
        name: &str,
        params: Params,
        random: &mut impl TryCryptoRng,
    ) -> Result<Self> {
        if !is_name(name) {
            return Err(Error::Params {
                reason: "the name of a client has 1 to 255 bytes and no control characters"
                    .to_owned(),
            });
        }
        let mut seed = Zeroizing::new([0; 32]);
        random
            .try_fill_bytes(&mut *seed)
            .map_err(|error| Error::Random { reason: error.to_string() })?;
        Ok(Self {
            round: round.to_owned(),
            name: name.to_owned(),
            params,
            tag: params.tag(round)?,
            seed,
            turn: Turn::Keys,
        })
    }

    /// Round 0: the public keys, for the server.
    ///
    /// # Errors
    /// When the roster has been seen already.
    pub fn advertise(&self) -> Result<Vec<u8>> {
        let Turn::Keys = self.turn else { return Err(self.not_now("to send keys")) };
        Ok(self.member().to_bytes(&self.tag))
    }

    /// Round 1: takes the roster; gives a sealed letter for every other member, for the server to pass on.
    ///
    /// # Errors
    /// When the roster is too small or too large, names someone twice, or does not show this client with its own keys.
    pub fn share(&mut self, roster: &[u8]) -> Result<Vec<u8>> {
        let Turn::Keys = self.turn else { return Err(self.not_now("to share keys")) };
        let roster = Roster::from_bytes(&self.tag, &self.params, roster)?;
        let own = self.place(&roster)?;
        let (session, sealing) = (roster.session, self.sealing());
        let secrets = self.secrets(&session);
        let mut out = Writer::new(Kind::Shares, &session, 40 + roster.len() * (4 + SEALED));
        out.size(own as usize);
        out.bytes(&commitment(&self.own_seed(&session), &session));
        out.size(roster.len() - 1);
        for (to, peer) in roster.peers(own) {
            let letter = Letter { session: &session, from: own, to };
            let sealed = letter.seal(&sealing, &peer.seal, &shares(&secrets, to));
            out.size(to as usize).bytes(&sealed);
        }
        self.turn = Turn::Shares(roster);
        Ok(out.done())
    }

    /// Round 2: takes the letters of the others; gives the sums of this client's rows, masked.
    ///
    /// # Errors
    /// When a letter was not sealed by its sender for this client in this round, when there are too few, when a number does not fit
    /// the fixed point, and a second time: two inputs under one mask show their difference.
    pub fn masked(&mut self, inbox: &[u8], products: &Products) -> Result<Vec<u8>> {
        let Turn::Shares(roster) = &self.turn else { return Err(self.not_now("to send an input")) };
        let own = self.place(roster)?;
        let session = roster.session;
        let mut held = self.open(inbox, roster, own)?;
        let mut numbers = self.params.fixed().integers(&self.params, products)?;
        let masking = self.masking();
        for place in held.keys() {
            let theirs = &roster.members[*place as usize].mask;
            let key = pair_mask(&masking, theirs, &session, (own, *place));
            apply(&key, if own < *place { Way::Add } else { Way::Take }, &mut numbers);
        }
        apply(&own_mask(&self.own_seed(&session), &session), Way::Add, &mut numbers);
        held.insert(own, shares(&self.secrets(&session), own));
        let mut out = Writer::new(Kind::Masked, &session, 8 + 16 * numbers.len());
        out.size(own as usize).size(numbers.len());
        numbers.iter().for_each(|v| {
            out.bytes(&v.to_le_bytes());
        });
        self.turn = Turn::Masked(roster.clone(), held);
        Ok(out.done())
    }

    /// Round 3: takes the list of who has sent an input and who has not; gives one share of each: of the own mask of those who have, of the
    /// mask key of those who have not, never both. The round is over then and its secrets are wiped.
    ///
    /// # Errors
    /// When too few have survived, when the list names a member both ways or not at all, or leaves this client out; and a second time,
    /// whatever the list.
    pub fn unmask(&mut self, survivors: &[u8]) -> Result<Vec<u8>> {
        let Turn::Masked(roster, held) = &self.turn else {
            return Err(self.not_now("to help unmask"));
        };
        let own = self.place(roster)?;
        let mut from = Reader::new(Kind::Survivors, &roster.session, survivors)?;
        let (survivors, dropped) = (from.places(roster.len())?, from.places(roster.len())?);
        from.end()?;
        let refuse = |reason: String| Err(Error::Refused { reason });
        if let Some(both) = survivors.iter().find(|place| dropped.contains(place)) {
            return refuse(format!(
                "`{}` is named both as survivor and as dropped: with shares of both kinds its input would show",
                roster.name(*both)
            ));
        }
        if survivors.len() < self.params.threshold() {
            return Err(Error::TooFew {
                what: "survivors",
                found: survivors.len(),
                threshold: self.params.threshold(),
            });
        }
        if let Some(stranger) = survivors.iter().chain(&dropped).find(|p| !held.contains_key(p)) {
            return refuse(format!(
                "`{}` has shared nothing in this round",
                roster.name(*stranger)
            ));
        }
        if survivors.len() + dropped.len() != held.len() {
            return refuse("the list leaves out members that have shared their keys".to_owned());
        }
        if survivors.binary_search(&own).is_err() {
            return refuse("the list says this client sent no input, but it has".to_owned());
        }
        let mut out = Writer::new(Kind::Answer, &roster.session, 8 + 36 * held.len());
        out.size(own as usize).size(held.len());
        for (place, shares) in held {
            let alive = survivors.binary_search(place).is_ok();
            let share = if alive { &shares[32..] } else { &shares[..32] };
            out.size(*place as usize).bytes(share);
        }
        self.turn = Turn::Over;
        self.seed = Zeroizing::new([0; 32]);
        Ok(out.done())
    }

    /// The letters, opened, by sender.
    fn open(&self, inbox: &[u8], roster: &Roster, own: u32) -> Result<Held> {
        let mut from = Reader::new(Kind::Inbox, &roster.session, inbox)?;
        if from.place()? != own {
            return Err(Error::Refused { reason: "the inbox is another client's".to_owned() });
        }
        let count = from.count(4 + SEALED)?;
        let mut letters = Vec::with_capacity(count);
        let mut last = None;
        for _ in 0..count {
            let place = from.next_place(last, roster.len())?;
            last = Some(place);
            letters.push((place, from.array::<SEALED>()?));
        }
        from.end()?;
        if letters.iter().any(|(place, _)| *place == own) {
            return Err(Error::Refused {
                reason: "the inbox has a letter of this client to itself".to_owned(),
            });
        }
        let found = letters.len() + 1;
        if found < self.params.threshold() {
            return Err(Error::TooFew {
                what: "clients have shared their keys",
                found,
                threshold: self.params.threshold(),
            });
        }
        let sealing = self.sealing();
        let mut held = Held::new();
        for (place, sealed) in letters {
            let peer = &roster.members[place as usize];
            let letter = Letter { session: &roster.session, from: place, to: own };
            let shares = letter.open(&sealing, &peer.seal, &sealed);
            let Some(shares) = shares.filter(|s| are_scalars(s)) else {
                return Err(Error::Client {
                    client: peer.name.clone(),
                    reason: "its letter was not sealed by it for this client in this round: it was changed, swapped or replayed",
                });
            };
            held.insert(place, shares);
        }
        Ok(held)
    }

    /// This client's place, if the roster shows it as it is.
    fn place(&self, roster: &Roster) -> Result<u32> {
        let own = self.member();
        match roster.place(&self.name) {
            Some(place) if roster.members[place as usize] == own => Ok(place),
            Some(_) => Err(Error::Refused {
                reason: "the roster shows this client with other keys than its own".to_owned(),
            }),
            None => Err(Error::Refused { reason: "this client is not on the roster".to_owned() }),
        }
    }

    fn member(&self) -> Member {
        Member {
            name: self.name.clone(),
            seal: public(&self.sealing()),
            mask: public(&self.masking()),
        }
    }

    /// The secret key for letters.
    fn sealing(&self) -> Zeroizing<[u8; 32]> {
        derive(&*self.seed, &self.tag, &[b"key for letters"])
    }

    /// The secret key for masks: a scalar, so that it can be shared.
    fn masking(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(derive_scalar(&*self.seed, &self.tag, &[b"key for masks"]).to_bytes())
    }

    /// The seed of the own mask.
    fn own_seed(&self, session: &Tag) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(derive_scalar(&*self.seed, session, &[b"own seed"]).to_bytes())
    }

    /// The mask key and the seed of the own mask, ready to be shared.
    fn secrets(&self, session: &Tag) -> [Polynomial; 2] {
        let polynomial = |secret: &[u8; 32], which: &[u8]| {
            let mut coefficients: Vec<Scalar> = Vec::with_capacity(self.params.threshold());
            coefficients.push(scalar(secret).expect("made as a scalar"));
            for k in 1..self.params.threshold() as u64 {
                let purpose: [&[u8]; 3] = [b"coefficient", which, &k.to_le_bytes()];
                coefficients.push(derive_scalar(&*self.seed, session, &purpose));
            }
            Polynomial::new(coefficients)
        };
        [polynomial(&self.masking(), b"mask key"), polynomial(&self.own_seed(session), b"own seed")]
    }

    fn not_now(&self, call: &'static str) -> Error {
        let reason = match self.turn {
            Turn::Keys => "the client waits for the roster (call `share`)",
            Turn::Shares(_) => "the client waits for its inbox (call `masked`)",
            Turn::Masked(..) => {
                "the client has sent its input and waits for the survivors (call `unmask`)"
            }
            Turn::Over => "the client has answered in this round, and answers once",
        };
        Error::Turn { call, reason }
    }

    /// The client between two messages, for a process that ends in between.
    ///
    /// **This is secret**: whoever has it and the masked input has the summary. Keep it where the rows are kept, and overwrite it with
    /// the next one: a state of before, used again, would answer a second time.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Writer::new(Kind::State, &self.tag, 512);
        out.text(&self.round).text(&self.name);
        self.params.write(&mut out);
        out.bytes(&*self.seed);
        match &self.turn {
            Turn::Keys => {
                out.bytes(&[0]);
            }
            Turn::Shares(roster) => {
                out.bytes(&[1]);
                roster.write(&mut out);
            }
            Turn::Masked(roster, held) => {
                out.bytes(&[2]);
                roster.write(&mut out);
                out.size(held.len());
                for (place, shares) in held {
                    out.size(*place as usize).bytes(&**shares);
                }
            }
            Turn::Over => {
                out.bytes(&[3]);
            }
        }
        Zeroizing::new(out.done())
    }

    /// The client of [`Client::to_bytes`].
    ///
    /// # Errors
    /// On any bytes that are not exactly a client's state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (tag, mut from) = Reader::any_tag(Kind::State, bytes)?;
        let (round, name) = (from.text()?.to_owned(), from.text()?.to_owned());
        let params = Params::read(&mut from)?;
        if params.tag(&round)? != tag {
            return Err(Kind::State.wrong("it is altered"));
        }
        let seed = Zeroizing::new(from.array()?);
        let mut client = Self { round, name, params, tag, seed, turn: Turn::Over };
        let [turn] = from.array()?;
        client.turn = match turn {
            0 => Turn::Keys,
            1 | 2 => {
                let roster = Roster::new(&tag, &params, Roster::read(&mut from)?)?;
                client.place(&roster)?;
                if turn == 1 {
                    Turn::Shares(roster)
                } else {
                    client.read_held(&mut from, roster)?
                }
            }
            3 => Turn::Over,
            other => return Err(Kind::State.wrong(format!("there is no turn {other}"))),
        };
        from.end()?;
        Ok(client)
    }

    fn read_held(&self, from: &mut Reader<'_>, roster: Roster) -> Result<Turn> {
        let mut held = Held::new();
        let count = from.count(4 + SHARES)?;
        for _ in 0..count {
            let last = held.last_key_value().map(|(place, _)| *place);
            let place = from.next_place(last, roster.len())?;
            let shares = Zeroizing::new(from.array()?);
            if !are_scalars(&shares) {
                return Err(Kind::State.wrong("a share is no scalar"));
            }
            held.insert(place, shares);
        }
        if held.len() < self.params.threshold() || !held.contains_key(&self.place(&roster)?) {
            return Err(Kind::State.wrong("shares are missing"));
        }
        Ok(Turn::Masked(roster, held))
    }
}

/// The shares of both secrets for one member.
fn shares(secrets: &[Polynomial; 2], to: u32) -> Zeroizing<[u8; SHARES]> {
    let mut both = Zeroizing::new([0; SHARES]);
    both[..32].copy_from_slice(&*secrets[0].share(to));
    both[32..].copy_from_slice(&*secrets[1].share(to));
    both
}

fn are_scalars(shares: &[u8; SHARES]) -> bool {
    shares.chunks_exact(32).all(|half| {
        let half: &Bytes = half.try_into().expect("32 bytes");
        scalar(half).is_some()
    })
}
