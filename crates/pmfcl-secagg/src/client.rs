//! A client's side of a round.

use std::collections::BTreeMap;
use std::fmt;

use curve25519_dalek::Scalar;
use pmfcl::problem::Digest;
use pmfcl::summary::Products;
use rand_core::TryCryptoRng;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::keys::{
    Letter, SEALED, SHARES, commitment, derive, derive_scalar, hash, own_mask, pair_mask, public,
};
use crate::mask::{Way, apply};
use crate::params::Params;
use crate::roster::{Member, Roster};
use crate::sharing::{Bytes, Polynomial, scalar};
use crate::wire::{Kind, Reader, Tag, Writer, is_name};

/// The shares a client holds of a member: of its mask key, then of the seed of its own mask.
type Held = BTreeMap<u32, Zeroizing<[u8; SHARES]>>;

/// What a client puts into a sum: the products of its rows, and what they were made for. A client refuses to mask those of another
/// agreement or step than its keys are bound to, so a server cannot have them made for one and sent as the other.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// [`Agreement::digest`](pmfcl::problem::Agreement::digest) of the agreement the rows were summarized under.
    pub agreement: Digest,
    /// The step the rows are of.
    pub step: u64,
    /// Their sums of products.
    pub products: &'a Products,
}

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
    /// In a signed round.
    identity: Option<Identity>,
    turn: Turn,
}

enum Turn {
    /// Waits for the roster.
    Keys,
    /// Waits for the letters of the others.
    Shares(Roster),
    /// Waits for the list of survivors.
    Masked(Roster, Held),
    /// Signed round: has signed this list of survivors and waits for the signatures of the others.
    Confirmed(Roster, Held, List),
    /// Has answered, or will never.
    Over,
}

/// Who has sent an input, and who has shared keys but sent none.
struct List {
    survivors: Vec<u32>,
    dropped: Vec<u32>,
}

impl List {
    /// What a client signs: this is the one list it was shown.
    fn claim(&self, session: &Tag) -> Tag {
        let bytes = |places: &[u32]| -> Vec<u8> {
            places.iter().flat_map(|place| place.to_le_bytes()).collect()
        };
        hash(&[b"survivors", session, &bytes(&self.survivors), &bytes(&self.dropped)])
    }
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
    /// When a name is invalid, there are no random numbers, or the round is a signed one.
    pub fn new(
        round: &str,
        name: &str,
        params: Params,
        random: &mut impl TryCryptoRng,
    ) -> Result<Self> {
        Self::of(round, name, params, None, random)
    }

    /// A client for one signed round.
    ///
    /// # Errors
    /// As [`Client::new`], and when the round is not a signed one.
    pub fn signed(
        round: &str,
        name: &str,
        params: Params,
        identity: Identity,
        random: &mut impl TryCryptoRng,
    ) -> Result<Self> {
        Self::of(round, name, params, Some(identity), random)
    }

    fn of(
        round: &str,
        name: &str,
        params: Params,
        identity: Option<Identity>,
        random: &mut impl TryCryptoRng,
    ) -> Result<Self> {
        check_identity(&params, identity.as_ref())?;
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
            identity,
            turn: Turn::Keys,
        })
    }

    /// What all sides hold in common, agreement and step among it.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The round.
    pub fn round(&self) -> &str {
        &self.round
    }

    /// Who takes part, once the roster has been seen and until this client has answered.
    pub fn members(&self) -> Vec<&str> {
        let roster = match &self.turn {
            Turn::Shares(roster) | Turn::Masked(roster, _) | Turn::Confirmed(roster, ..) => roster,
            Turn::Keys | Turn::Over => return Vec::new(),
        };
        roster.members.iter().map(|member| member.name.as_str()).collect()
    }

    /// Round 0: the public keys, for the server.
    ///
    /// # Errors
    /// When the roster has been seen already.
    pub fn advertise(&self) -> Result<Vec<u8>> {
        let Turn::Keys = self.turn else { return Err(self.not_now("to send keys")) };
        let mut member = self.member();
        member.signature = self.identity.as_ref().map(|own| own.sign(&member.claim(&self.tag)));
        Ok(member.to_bytes(&self.tag))
    }

    /// Round 1: takes the roster; gives a sealed letter for every other member, for the server to pass on.
    ///
    /// # Errors
    /// When the roster is too small or too large, names someone twice, or does not show this client with its own keys; in
    /// a signed round also when keys are not signed by who they are said to be of.
    pub fn share(&mut self, roster: &[u8]) -> Result<Vec<u8>> {
        let Turn::Keys = self.turn else { return Err(self.not_now("to share keys")) };
        let roster = Roster::from_bytes(&self.tag, &self.params, roster)?;
        let own = self.place(&roster)?;
        if let Some(identity) = &self.identity {
            for member in &roster.members {
                let claim = member.claim(&self.tag);
                if !member.signature.is_some_and(|s| identity.verify(&member.name, &claim, &s)) {
                    return Err(Error::Client {
                        client: member.name.clone(),
                        reason: "its keys are not signed by a client known by that name",
                    });
                }
            }
        }
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
    /// When the sums are of another agreement or step than the round, when a letter was not sealed by its sender for this client in this
    /// round, when there are too few, when a number does not fit the fixed point, and a second time: two inputs under one mask show their
    /// difference.
    pub fn masked(&mut self, inbox: &[u8], input: &Input<'_>) -> Result<Vec<u8>> {
        let Turn::Shares(roster) = &self.turn else { return Err(self.not_now("to send an input")) };
        self.check_input(input)?;
        let products = input.products;
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

    /// The keys are of one agreement and one step; so must be what they mask.
    fn check_input(&self, input: &Input<'_>) -> Result<()> {
        let refuse = |what: &str, bound: String, found: String| {
            let reason = format!(
                "the sums are of {what} {found}, and this client's keys are for {what} {bound}: a server that changes it within a round \
                 is after the difference"
            );
            Err(Error::Refused { reason })
        };
        if input.agreement != self.params.agreement() {
            let (bound, found) = (self.params.agreement(), input.agreement);
            return refuse("agreement", bound.to_string(), found.to_string());
        }
        if input.step != self.params.step() {
            return refuse("step", self.params.step().to_string(), input.step.to_string());
        }
        Ok(())
    }

    /// Round 3: takes the list of who has sent an input and who has not; gives one share of each: of the own mask of those who have, of the
    /// mask key of those who have not, never both. The round is over then and its secrets are wiped.
    ///
    /// In a signed round, takes the signatures of the others under the list this client has signed ([`Client::confirm`]).
    ///
    /// # Errors
    /// When too few have survived, when the list names a member both ways or not at all, or leaves this client out; in a signed round,
    /// when fewer than the threshold have signed the same list; and a second time, whatever the list.
    pub fn unmask(&mut self, survivors: &[u8]) -> Result<Vec<u8>> {
        let answer = match (&self.turn, &self.identity) {
            (Turn::Masked(roster, held), None) => {
                self.answer(roster, held, &self.list(survivors, roster, held)?)?
            }
            (Turn::Confirmed(roster, held, list), Some(identity)) => {
                self.check_signatures(survivors, roster, list, identity)?;
                self.answer(roster, held, list)?
            }
            _ => return Err(self.not_now("to help unmask")),
        };
        self.turn = Turn::Over;
        self.seed = Zeroizing::new([0; 32]);
        Ok(answer)
    }

    /// Between rounds 2 and 3, in a signed round: takes the list of survivors; gives this client's signature under it. It signs one list.
    ///
    /// # Errors
    /// As [`Client::unmask`], and in a round that is not signed.
    pub fn confirm(&mut self, survivors: &[u8]) -> Result<Vec<u8>> {
        let (Turn::Masked(roster, held), Some(identity)) = (&self.turn, &self.identity) else {
            return Err(self.not_now("to sign a list of survivors"));
        };
        let list = self.list(survivors, roster, held)?;
        let mut out = Writer::new(Kind::Confirmation, &roster.session, 68);
        out.size(self.place(roster)? as usize).bytes(&identity.sign(&list.claim(&roster.session)));
        self.turn = Turn::Confirmed(roster.clone(), held.clone(), list);
        Ok(out.done())
    }

    /// A list of survivors, if an honest server can have sent it.
    fn list(&self, bytes: &[u8], roster: &Roster, held: &Held) -> Result<List> {
        let mut from = Reader::new(Kind::Survivors, &roster.session, bytes)?;
        let (survivors, dropped) = (from.places(roster.len())?, from.places(roster.len())?);
        from.end()?;
        let list = List { survivors, dropped };
        self.check_list(&list, roster, held)?;
        Ok(list)
    }

    fn check_list(&self, list: &List, roster: &Roster, held: &Held) -> Result<()> {
        let List { survivors, dropped } = list;
        let own = self.place(roster)?;
        let refuse = |reason: String| Err(Error::Refused { reason });
        if let Some(both) = survivors.iter().find(|place| dropped.binary_search(place).is_ok()) {
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
        if let Some(stranger) = survivors.iter().chain(dropped).find(|p| !held.contains_key(p)) {
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
        Ok(())
    }

    /// Whether enough survivors have signed the same list. Signatures that do not hold count for nothing.
    fn check_signatures(
        &self,
        bytes: &[u8],
        roster: &Roster,
        list: &List,
        identity: &Identity,
    ) -> Result<()> {
        let mut from = Reader::new(Kind::Confirmed, &roster.session, bytes)?;
        let count = from.count(68)?;
        let claim = list.claim(&roster.session);
        let (mut last, mut found) = (None, 0);
        for _ in 0..count {
            let place = from.next_place(last, roster.len())?;
            last = Some(place);
            let signature = from.array()?;
            let survived = list.survivors.binary_search(&place).is_ok();
            found +=
                usize::from(survived && identity.verify(roster.name(place), &claim, &signature));
        }
        from.end()?;
        let threshold = self.params.threshold();
        if found < threshold {
            let what = "survivors have signed the list this client has signed";
            return Err(Error::TooFew { what, found, threshold });
        }
        Ok(())
    }

    /// One share of each member: which one, the list says.
    fn answer(&self, roster: &Roster, held: &Held, list: &List) -> Result<Vec<u8>> {
        let mut out = Writer::new(Kind::Answer, &roster.session, 8 + 36 * held.len());
        out.size(self.place(roster)? as usize).size(held.len());
        for (place, shares) in held {
            let alive = list.survivors.binary_search(place).is_ok();
            let share = if alive { &shares[32..] } else { &shares[..32] };
            out.size(*place as usize).bytes(share);
        }
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
        let is_own = |place: u32| {
            let shown = &roster.members[place as usize];
            (shown.seal, shown.mask) == (own.seal, own.mask)
        };
        match roster.place(&self.name) {
            Some(place) if is_own(place) => Ok(place),
            Some(_) => Err(Error::Refused {
                reason: "the roster shows this client with other keys than its own".to_owned(),
            }),
            None => Err(Error::Refused { reason: "this client is not on the roster".to_owned() }),
        }
    }

    /// The public keys, without a signature.
    fn member(&self) -> Member {
        Member {
            name: self.name.clone(),
            seal: public(&self.sealing()),
            mask: public(&self.masking()),
            signature: None,
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
            Turn::Masked(..) if self.identity.is_some() => {
                "the client has sent its input and waits for the survivors, to sign them (call `confirm`)"
            }
            Turn::Masked(..) => {
                "the client has sent its input and waits for the survivors (call `unmask`)"
            }
            Turn::Confirmed(..) => {
                "the client has signed a list and waits for the signatures of the others (call `unmask`)"
            }
            Turn::Over => "the client has answered in this round, and answers once",
        };
        Error::Turn { call, reason }
    }

    /// The client between two messages, for a process that ends in between. An [`Identity`] is no part of it.
    ///
    /// **This is secret**: whoever has it and the masked input has the summary. Keep it where the rows are kept, and overwrite it with
    /// the next one: a state of before, used again, would answer a second time.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Room for all of it, so that no copy stays behind where it grew.
        let members = self.params.clients().min(1 << 16);
        let mut out = Writer::new(Kind::State, &self.tag, 640 + 464 * members);
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
                write_held(&mut out, held);
            }
            Turn::Confirmed(roster, held, list) => {
                out.bytes(&[3]);
                roster.write(&mut out);
                write_held(&mut out, held);
                out.places(&list.survivors).places(&list.dropped);
            }
            Turn::Over => {
                out.bytes(&[4]);
            }
        }
        Zeroizing::new(out.done())
    }

    /// The client of [`Client::to_bytes`].
    ///
    /// # Errors
    /// On any bytes that are not exactly a client's state, and for a signed round.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes, None)
    }

    /// The client of [`Client::to_bytes`] in a signed round.
    ///
    /// # Errors
    /// As [`Client::from_bytes`], and for a round that is not signed.
    pub fn from_bytes_signed(bytes: &[u8], identity: Identity) -> Result<Self> {
        Self::read(bytes, Some(identity))
    }

    fn read(bytes: &[u8], identity: Option<Identity>) -> Result<Self> {
        let (tag, mut from) = Reader::any_tag(Kind::State, bytes)?;
        let (round, name) = (from.text()?.to_owned(), from.text()?.to_owned());
        let params = Params::read(&mut from)?;
        if params.tag(&round)? != tag {
            return Err(Kind::State.wrong("it is altered"));
        }
        check_identity(&params, identity.as_ref())?;
        let seed = Zeroizing::new(from.array()?);
        let mut client = Self { round, name, params, tag, seed, identity, turn: Turn::Over };
        let [turn] = from.array()?;
        client.turn = match turn {
            0 => Turn::Keys,
            1..=3 => {
                let members = Roster::read(&mut from, &params)?;
                let roster = Roster::new(&tag, &params, members)?;
                let own = client.place(&roster)?;
                if turn == 1 {
                    Turn::Shares(roster)
                } else {
                    let held = client.read_held(&mut from, &roster, own)?;
                    if turn == 2 {
                        Turn::Masked(roster, held)
                    } else {
                        let mut places = || from.places(roster.len());
                        let list = List { survivors: places()?, dropped: places()? };
                        client.check_list(&list, &roster, &held)?;
                        Turn::Confirmed(roster, held, list)
                    }
                }
            }
            4 => Turn::Over,
            other => return Err(Kind::State.wrong(format!("there is no turn {other}"))),
        };
        from.end()?;
        Ok(client)
    }

    fn read_held(&self, from: &mut Reader<'_>, roster: &Roster, own: u32) -> Result<Held> {
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
        if held.len() < self.params.threshold() || !held.contains_key(&own) {
            return Err(Kind::State.wrong("shares are missing"));
        }
        Ok(held)
    }
}

fn write_held(out: &mut Writer, held: &Held) {
    out.size(held.len());
    for (place, shares) in held {
        out.size(*place as usize).bytes(&**shares);
    }
}

/// A signed round needs an identity, and no other does.
fn check_identity(params: &Params, identity: Option<&Identity>) -> Result<()> {
    let reason = match (params.is_signed(), identity) {
        (true, None) => "the round is signed: give the client an identity",
        (false, Some(_)) => {
            "the round is not signed, so an identity protects nothing: agree on signed parameters"
        }
        _ => return Ok(()),
    };
    Err(Error::Params { reason: reason.to_owned() })
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
