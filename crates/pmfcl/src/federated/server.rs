//! The server: a register of what was accepted, by client and step.

use std::collections::BTreeMap;

use super::refused::Refused;
use super::rules::Rules;
use super::update::{Update, UpdateForm};
use super::{Agreement, Broadcast, Joint};
use crate::error::{Error, Result};

/// What became of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It is in the register now.
    Accepted,
    /// It had been there already, number for number; nothing changed.
    Known,
}

/// A server. It holds the updates it has accepted and makes the model from them, in the order of names and steps.
///
/// ```
/// use pmfcl::federated::{Agreement, Rules, Server};
/// use pmfcl::{Basis, Design, Rows, Settings};
///
/// let design = Design::new(Basis::default().fix(&[], 1)?, true);
/// let agreement = Agreement::values(Settings::default(), 1, design)?;
/// let mut server = Server::new(agreement.clone(), Rules::default())?;
/// for (client, x, y) in [("north", [1.0, 2.0, 3.0], [2.0, 4.1, 5.9]), ("south", [4.0, 5.0, 6.0], [8.1, 9.9, 12.0])] {
///     let update = agreement.summarize(client, 0, Rows::new(&x, 1)?, Rows::new(&y, 1)?)?;
///     server.accept_bytes(&update.to_bytes()).expect("a sound update");
/// }
/// let predicted = server.joint()?.decision(Rows::new(&[7.0], 1)?)?;
/// assert!((predicted[0] - 14.0).abs() < 0.2);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    pub(super) agreement: Agreement,
    pub(super) rules: Rules,
    pub(super) register: BTreeMap<(String, u64), Update>,
}

impl Server {
    /// A server that has accepted nothing.
    ///
    /// # Errors
    /// When a rule is out of range.
    pub fn new(agreement: Agreement, rules: Rules) -> Result<Self> {
        if let Some(share) = rules.most_share
            && !(share > 0.0 && share <= 1.0)
        {
            return Err(Error::Range {
                what: "the largest share of a client",
                value: share,
                must: "above 0 and at most 1",
            });
        }
        for (what, value) in [
            ("the fewest samples of a step", rules.least_samples),
            ("the most samples of a step", rules.most_samples),
        ] {
            if value.is_nan() || value < 0.0 {
                return Err(Error::Range { what, value, must: "0 or more" });
            }
        }
        Ok(Self { agreement, rules, register: BTreeMap::new() })
    }

    /// What clients and server hold in common.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes an upload as it came.
    ///
    /// # Errors
    /// When it is not taken, with the reason and the client; the server is then what it was.
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Result<Receipt, Refused> {
        self.accept(Update::from_bytes(bytes, self.rules.most_bytes)?)
    }

    /// Takes an update.
    ///
    /// # Errors
    /// As [`Server::accept_bytes`].
    pub fn accept(&mut self, update: Update) -> Result<Receipt, Refused> {
        let bytes = update.nbytes();
        if bytes > self.rules.most_bytes {
            return Err(Refused::TooLarge { bytes, most: self.rules.most_bytes });
        }
        self.rules.check(&self.agreement, &update)?;
        let key = (update.client.clone(), update.step);
        match self.register.get(&key) {
            Some(held) if held.is_same(&update) => Ok(Receipt::Known),
            Some(_) => Err(Refused::Replaced { client: key.0, step: key.1 }),
            None => {
                self.register.insert(key, update);
                Ok(Receipt::Accepted)
            }
        }
    }

    /// Everything accepted, by client and step.
    pub fn updates(&self) -> impl ExactSizeIterator<Item = &Update> {
        self.register.values()
    }

    /// Clients that have sent something, in order.
    pub fn clients(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.register.keys().map(|(client, _)| &**client).collect();
        names.dedup();
        names
    }

    /// Samples accepted.
    pub fn samples(&self) -> f64 {
        self.register.values().map(Update::samples).sum()
    }

    /// Whether the model is that of pooled rows: no update was sent as a diagonal bound.
    pub fn is_exact(&self) -> bool {
        self.register.values().all(|u| u.form == UpdateForm::Exact)
    }

    /// Takes a client out: afterwards the model is that of its never having been there. Returns how many updates went.
    pub fn remove_client(&mut self, client: &str) -> usize {
        let before = self.register.len();
        self.register.retain(|(name, _), _| name != client);
        before - self.register.len()
    }

    /// Takes one step of a client out; `false` where there is none.
    pub fn remove(&mut self, client: &str, step: u64) -> bool {
        self.register.remove(&(client.to_owned(), step)).is_some()
    }

    /// The model of everything in the register: a learner or classifier that holds one task for each client and step.
    ///
    /// # Errors
    /// When nothing has been accepted, or the sums leave the range of double precision.
    pub fn joint(&self) -> Result<Joint> {
        Joint::of(self)
    }

    /// The parameters, to be sent to all.
    ///
    /// # Errors
    /// As [`Server::joint`].
    pub fn broadcast(&self) -> Result<Broadcast> {
        let joint = self.joint()?;
        Ok(Broadcast {
            model: self.agreement.fingerprint(),
            updates: self.register.len() as u64,
            samples: self.samples(),
            theta: joint.model()?.theta.clone(),
        })
    }
}
