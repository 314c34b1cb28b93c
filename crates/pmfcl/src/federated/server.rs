//! The server: a register of what was accepted, by client and step.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Broadcast;
use super::calibration::{CalibrationAnswer, CalibrationRequest};
use super::refused::Refused;
use super::rules::Rules;
use super::tree::{Tree, leaf};
use super::update::{Update, is_name};
use crate::error::{Error, Result};
use crate::learner::{Learner, LearnerState, TaskRecord, TaskReport};
use crate::problem::{Agreement, Digest, Encoding, Exactness, Part, Pool, Response, TaskSummary};
use crate::settings::Preference;

/// What the task of a diagonal update was called in models of earlier versions, after client and step.
const DIAGONAL: &str = " (diagonal)";

/// What became of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It is in the register now.
    Accepted,
    /// It had been there already, number for number; nothing changed.
    Known,
}

/// What a transport knows of an upload in addition to its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sender<'a> {
    /// Whose connection it came over; anyone's where that is not known.
    pub client: Option<&'a str>,
    /// The last step that was asked for; any where that is not known.
    pub last_step: Option<u64>,
}

impl Sender<'_> {
    fn check(&self, update: &Update) -> Result<(), Refused> {
        let client = || update.client().to_owned();
        if let Some(sender) = self.client.filter(|sender| *sender != update.client()) {
            return Err(Refused::OtherSender { client: client(), sender: sender.to_owned() });
        }
        match self.last_step.filter(|last| update.step() > *last) {
            Some(last) => Err(Refused::NotAsked { client: client(), step: update.step(), last }),
            None => Ok(()),
        }
    }
}

/// One step of one client under the joint model.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for lab, python
pub struct ClientStep {
    /// The client.
    pub client: String,
    /// The step.
    pub step: u64,
    /// Samples, loss, forgetting or its bound. Of a diagonal update only the bound is known.
    pub report: TaskReport,
}

/// A server. It holds the updates it has accepted and makes the model from them; the order of arrival does not change a bit.
///
/// ```
/// use pmfcl::federated::{Rules, Server, Update};
/// use pmfcl::problem::{Agreement, Problem};
/// use pmfcl::{Design, Rows, Settings, TaskRows};
///
/// let design = Design::linear(1, true)?;
/// let agreement = Agreement::new(Problem::squared(), Settings::default(), design, 1)?;
/// let mut server = Server::new(agreement.clone(), Rules::default())?;
/// for (client, x, y) in [("north", [1.0, 2.0, 3.0], [2.0, 4.1, 5.9]), ("south", [4.0, 5.0, 6.0], [8.1, 9.9, 12.0])] {
///     let rows = TaskRows::new(Rows::new(&x, 1)?, Rows::new(&y, 1)?);
///     let update = Update::of_rows(&agreement, client, 0, rows)?;
///     server.accept_bytes(&update.to_bytes()).expect("a sound update");
/// }
/// let predicted = server.joint()?.predict(Rows::new(&[7.0], 1)?)?;
/// assert!((predicted[0] - 14.0).abs() < 0.2);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    agreement: Agreement,
    rules: Rules,
    register: BTreeMap<(String, u64), Filed>,
    /// Of all updates that are held.
    bytes: u64,
    tree: Mutex<Tree>,
    /// The request to calibrate that answers are taken to; none where the register has changed since.
    asked: Option<(Digest, f64)>,
}

/// An accepted update; its summary is shared with the models made from it.
#[derive(Debug, Clone)]
struct Filed {
    update: Update,
    task: Arc<TaskSummary>,
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self {
            agreement: self.agreement.clone(),
            rules: self.rules.clone(),
            register: self.register.clone(),
            bytes: self.bytes,
            tree: Mutex::new(self.tree().clone()),
            asked: self.asked,
        }
    }
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
        for (what, largest) in [
            ("the largest feature", rules.largest_feature),
            ("the largest target", rules.largest_target),
        ] {
            if let Some(value) = largest.filter(|value| !(*value > 0.0 && *value <= 1e50)) {
                return Err(Error::Range { what, value, must: "above 0 and at most 1e50" });
            }
        }
        let (register, tree) = (BTreeMap::new(), Mutex::default());
        Ok(Self { agreement, rules, register, bytes: 0, tree, asked: None })
    }

    /// The server that made this model, with everything it had accepted. Rules that have changed meanwhile hold for what is yet
    /// to come.
    ///
    /// # Errors
    /// When the model is not one of this agreement, was not made by a federation, or its summaries are still in a file.
    pub fn resume(agreement: Agreement, rules: Rules, joint: &Learner) -> Result<Self> {
        let mut server = Self::new(agreement, rules)?;
        let missing = joint.unloaded();
        if missing > 0 {
            return Err(Error::Unloaded { operation: "going on with a federation", missing });
        }
        let agreement = &server.agreement;
        let expected = (agreement.design().width(), agreement.columns());
        let other = || Error::State { reason: "the model is one of another federation".to_owned() };
        for (at, record) in joint.records().iter().enumerate() {
            let (client, step) = client_and_step(&record.name)?;
            let task = joint.task_summary_at(at).ok_or_else(other)?;
            let found = (task.quadratic.width(), task.quadratic.targets());
            // Of steps before inputs were added, summaries are narrower.
            if found.0 > expected.0
                || found.1 != expected.1
                || joint.design() != Some(agreement.design())
            {
                return Err(other());
            }
            let mut plain = (**task).clone();
            plain.head.calibration = None;
            let mut task = task.clone();
            if joint.calibration(at) != task.head.calibration.as_ref() {
                Arc::make_mut(&mut task).head.calibration = joint.calibration(at).cloned();
            }
            let update = Update::accepted(client, step, agreement.digest(), plain);
            server.bytes += update.nbytes() as u64;
            let filed = Filed { update, task };
            server.register.insert((client.to_owned(), step), filed);
        }
        Ok(server)
    }

    /// What clients and server hold in common.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Goes on under an agreement with more inputs ([`Agreement::after`]): steps that are held have been zero there, and so have
    /// those that clients still send under an earlier agreement.
    ///
    /// # Errors
    /// When the agreement does not go on with that of this server, which is then unchanged.
    pub fn extend(&mut self, agreement: Agreement) -> Result<()> {
        if agreement.width_under(self.agreement.digest()).is_none() {
            return Err(Error::Mismatch {
                what: "the agreement",
                left: self.agreement.to_string(),
                right: format!("{agreement}, which does not go on with it"),
            });
        }
        self.agreement = agreement;
        self.asked = None;
        self.tree().mark_all_stale();
        Ok(())
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an upload as it came.
    ///
    /// # Errors
    /// When it is not taken, with the reason and the client; the server is then unchanged.
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Result<Receipt, Refused> {
        self.accept(Update::from_bytes(bytes, self.rules.most_bytes)?)
    }

    /// Takes an update.
    ///
    /// # Errors
    /// As [`Server::accept_bytes`].
    pub fn accept(&mut self, update: Update) -> Result<Receipt, Refused> {
        self.accept_from(&Sender::default(), update)
    }

    /// Takes an update from a sender that the transport knows: nobody sends for another client, nor ahead of time.
    ///
    /// # Errors
    /// As [`Server::accept_bytes`].
    pub fn accept_from(&mut self, sender: &Sender<'_>, update: Update) -> Result<Receipt, Refused> {
        sender.check(&update)?;
        let bytes = update.nbytes();
        if bytes > self.rules.most_bytes {
            return Err(Refused::TooLarge { bytes, most: self.rules.most_bytes });
        }
        self.rules.check(&self.agreement, &update)?;
        let key = (update.client().to_owned(), update.step());
        match self.register.get(&key) {
            Some(held) if self.is_held(held, &update) => Ok(Receipt::Known),
            Some(_) => Err(Refused::Replaced { client: key.0, step: key.1 }),
            None => {
                let (held, total) = (self.register.len(), self.bytes + bytes as u64);
                if held >= self.rules.most_updates || total > self.rules.most_total_bytes {
                    return Err(Refused::Full { client: key.0, held, bytes: self.bytes });
                }
                self.bytes = total;
                self.changed(&key.0, key.1);
                let task = Arc::new(update.task().clone());
                self.register.insert(key, Filed { update, task });
                Ok(Receipt::Accepted)
            }
        }
    }

    /// Whether an update is held, number for number. One of an earlier agreement may be held with the columns of a later one.
    fn is_held(&self, held: &Filed, update: &Update) -> bool {
        let width = self.agreement.design().width();
        let wide = |update: &Update| update.task().with_constants(width, &[]).ok();
        held.update.is_same(update)
            || wide(&held.update)
                .zip(wide(update))
                .is_some_and(|(a, b)| a.to_bytes(Encoding::Plain) == b.to_bytes(Encoding::Plain))
    }

    /// What to send to all clients, so that they measure probabilities at the joint model. Answers to an earlier request, and after
    /// updates were accepted or removed, are refused.
    ///
    /// # Errors
    /// As [`Server::joint`], and for losses whose probabilities are not measured.
    pub fn calibration_request(&mut self) -> Result<CalibrationRequest> {
        let options = self.agreement.problem().options();
        let Some((_, shrinkage)) = options.into_iter().find(|(name, _)| *name == "shrinkage")
        else {
            return Err(Error::Unsupported {
                operation: "measuring probabilities",
                reason: "only those of gaussian are measured".to_owned(),
            });
        };
        let pool = self.pool(&self.weights())?;
        let request = CalibrationRequest {
            agreement: self.agreement.digest(),
            by_samples: self.agreement.settings().prefer == Preference::Samples,
            samples: pool.samples,
            effective: pool.effective().ok_or(Error::NotLearned)?,
            shrinkage,
            pooled: pool.quadratic.clone(),
        };
        self.asked = Some((request.digest(), pool.samples));
        Ok(request)
    }

    /// Takes the answer of a client; one that came before for the same step is replaced.
    ///
    /// # Errors
    /// When it is of another model or request, of a step that is not in the register, or its numbers are not those of the step.
    pub fn accept_calibration(&mut self, answer: CalibrationAnswer) -> Result<(), Refused> {
        let CalibrationAnswer { agreement, request, client, step, table } = answer;
        let ours = self.agreement.digest();
        if agreement != ours {
            return Err(Refused::WrongModel { client, theirs: agreement, ours });
        }
        let implausible = |client: String, reason: &str| {
            Err(Refused::Implausible { client, step, reason: reason.to_owned() })
        };
        let Some((asked, samples)) = self.asked.filter(|(asked, _)| *asked == request) else {
            return implausible(client, "they were measured at another model; ask again");
        };
        debug_assert_eq!(asked, request);
        let Some(filed) = self.register.get_mut(&(client.clone(), step)) else {
            return implausible(client, "this step is not in the register");
        };
        // Tables are scaled to the samples of the step.
        let counted: f64 = table.distances.iter().sum();
        let own = filed.update.samples();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.max(1.0);
        if !near(table.samples, samples) || !(near(counted, own) || counted <= 0.0) {
            return implausible(client, "the table is not scaled to the samples of the step");
        }
        Arc::make_mut(&mut filed.task).head.calibration = Some(table);
        Ok(())
    }

    fn changed(&mut self, client: &str, step: u64) {
        self.asked = None;
        let mut tree = self.tree();
        // Weights that depend on all clients change with every step.
        if self.rules.most_share.is_some() {
            tree.mark_all_stale();
        } else {
            tree.mark_stale(client, step);
        }
    }

    /// Everything accepted, by client and step.
    pub fn updates(&self) -> impl ExactSizeIterator<Item = &Update> {
        self.register.values().map(|filed| &filed.update)
    }

    /// Clients that have sent something, in order.
    pub fn clients(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.register.keys().map(|(client, _)| &**client).collect();
        names.dedup();
        names
    }

    /// Samples accepted.
    pub fn samples(&self) -> f64 {
        self.updates().map(Update::samples).sum()
    }

    /// Whether the model is that of pooled rows: no update was sent as a diagonal bound.
    pub fn is_exact(&self) -> bool {
        let exactness = self.agreement.problem().exactness();
        self.updates().all(|u| !u.is_diagonal() && u.task().head.exactness == exactness)
    }

    /// Removes a client: afterwards the model is that of its never having been there. Returns how many updates went.
    pub fn remove_client(&mut self, client: &str) -> usize {
        let steps: Vec<u64> = self
            .register
            .keys()
            .filter(|(name, _)| name == client)
            .map(|(_, step)| *step)
            .collect();
        steps.iter().for_each(|step| {
            self.remove(client, *step);
        });
        steps.len()
    }

    /// Removes one step of a client; `false` where there is none.
    pub fn remove(&mut self, client: &str, step: u64) -> bool {
        let removed = self.register.remove(&(client.to_owned(), step));
        let there = removed.is_some();
        if let Some(filed) = removed {
            self.bytes -= filed.update.nbytes() as u64;
            self.changed(client, step);
        }
        there
    }

    /// The weight of each update, in the order of the register.
    fn weights(&self) -> Vec<f64> {
        let clients = self.clients();
        let place =
            |client: &str| clients.binary_search(&client).expect("every update has its client");
        let mut samples = vec![0.0; clients.len()];
        for update in self.updates() {
            samples[place(update.client())] += update.samples();
        }
        let factors = self.rules.factors(&samples);
        self.updates().map(|update| factors[place(update.client())]).collect()
    }

    /// The pool of everything accepted.
    fn pool(&self, weights: &[f64]) -> Result<Arc<Pool>> {
        let by_samples = self.agreement.settings().prefer == Preference::Samples;
        let mut leaves: HashMap<usize, Vec<Part<'_>>> = HashMap::new();
        for (filed, weight) in self.register.values().zip(weights) {
            let update = &filed.update;
            let share = if by_samples { weight * update.samples() } else { *weight };
            let at = leaf(update.client(), update.step());
            leaves.entry(at).or_default().push(Part { task: &filed.task, share });
        }
        let shape = (self.agreement.design().width(), self.agreement.columns());
        let tasks = |at: usize| leaves.get(&at).cloned().unwrap_or_default();
        self.tree().pool(shape, &tasks)?.ok_or(Error::NotLearned)
    }

    /// The model of everything in the register: a learner that holds one task for each client and step, named `client/step`.
    ///
    /// # Errors
    /// When nothing has been accepted, or the sums leave the range of double precision.
    pub fn joint(&self) -> Result<Learner> {
        let weights = self.weights();
        let pool = self.pool(&weights)?;
        let tasks = self.register.values().zip(&weights).map(|(filed, weight)| {
            let name = filed.update.task_name();
            (TaskRecord::of(&name, *weight, &filed.task), Some(filed.task.clone()))
        });
        Learner::from_state(LearnerState {
            problem: self.agreement.problem().clone(),
            settings: self.agreement.settings().clone(),
            design: Some(self.agreement.design().clone()),
            outputs: self.agreement.outputs().clone(),
            tasks: tasks.collect(),
            pool: Some((*pool).clone()),
            solution: None,
        })
    }

    /// Brings a model made by this server up to date: removes and adds what has changed, at a cost that does not grow with what
    /// was there before.
    ///
    /// # Errors
    /// As [`Server::joint`].
    pub fn update_joint(&self, joint: &mut Learner) -> Result<()> {
        let weights = self.weights();
        if let Some(more) = joint
            .design()
            .map(|design| self.agreement.design().inputs().saturating_sub(design.inputs()))
        {
            joint.extend_inputs(more)?;
            joint.set_fills(self.agreement.design().fills().to_vec())?;
        }
        let known: HashMap<(&str, u64), &TaskRecord> = joint
            .records()
            .iter()
            .map(|record| Ok((client_and_step(&record.name)?, record)))
            .collect::<Result<_>>()?;
        let same = |filed: &Filed, weight: f64| {
            let update = &filed.update;
            known.get(&(update.client(), update.step())).is_none_or(|record| {
                (record.weight - weight).abs() == 0.0 && record.name == update.task_name()
            })
        };
        if !self.register.values().zip(&weights).all(|(filed, weight)| same(filed, *weight)) {
            *joint = self.joint()?;
            return Ok(());
        }
        let missing: Vec<(&Filed, f64)> = self
            .register
            .values()
            .zip(weights.iter().copied())
            .filter(|(f, _)| !known.contains_key(&(f.update.client(), f.update.step())))
            .collect();
        let gone: Vec<String> = known
            .iter()
            .filter(|((client, step), _)| {
                !self.register.contains_key(&((*client).to_owned(), *step))
            })
            .map(|(_, record)| record.name.clone())
            .collect();
        if joint.records().len() == gone.len() || joint.design().is_none() {
            *joint = self.joint()?;
            return Ok(());
        }
        for name in gone {
            joint.unlearn(&name)?;
        }
        for (filed, weight) in missing {
            let name = filed.update.task_name();
            // A step of an earlier agreement has been zero in later columns.
            let task = filed.task.with_constants(self.agreement.design().width(), &[])?;
            joint.insert(&name, self.agreement.design(), task, weight)?;
        }
        self.bring_tables(joint)?;
        joint.adopt_pool(self.pool(&weights)?);
        Ok(())
    }

    /// Brings what clients have measured since to a model made by this server.
    fn bring_tables(&self, joint: &mut Learner) -> Result<()> {
        let names: HashMap<String, usize> =
            joint.names().enumerate().map(|(at, name)| (name.to_owned(), at)).collect();
        for filed in self.register.values() {
            let (name, table) = (filed.update.task_name(), &filed.task.head.calibration);
            let Some(table) = table else { continue };
            if names.get(&name).is_some_and(|&at| joint.calibration(at) != Some(table)) {
                joint.set_calibration(&name, table.clone())?;
            }
        }
        Ok(())
    }

    /// The parameters, to be sent to all.
    ///
    /// # Errors
    /// As [`Server::joint`].
    pub fn broadcast(&self) -> Result<Broadcast> {
        let joint = self.joint()?;
        Ok(Broadcast {
            agreement: self.agreement.digest(),
            updates: self.register.len() as u64,
            samples: self.samples(),
            // Clients do not know the means that fill gaps.
            theta: joint.theta_of_gaps()?,
            present: joint.present_columns()?,
            limits: match joint.response()? {
                Response::Values { limits, .. } => limits.clone(),
                Response::Classes { .. } => Vec::new(),
            },
        })
    }

    /// Every step of every client under the joint model: what it has forgotten, or a bound on that.
    ///
    /// # Errors
    /// As [`Server::joint`].
    pub fn report(&self) -> Result<Vec<ClientStep>> {
        self.report_of(&self.joint()?)
    }

    /// The same for a model made by this server before, with nothing accepted or removed since.
    ///
    /// # Errors
    /// When the model is of another register.
    pub fn report_of(&self, joint: &Learner) -> Result<Vec<ClientStep>> {
        let reports = joint.tasks()?;
        if reports.len() != self.register.len() {
            return Err(Error::Shape {
                what: "the model",
                unit: "tasks",
                expected: self.register.len(),
                found: reports.len(),
            });
        }
        let mut steps = reports
            .into_iter()
            .map(|report| {
                let (client, step) = client_and_step(&report.name)?;
                Ok(ClientStep { client: client.to_owned(), step, report })
            })
            .collect::<Result<Vec<_>>>()?;
        steps.sort_by(|a, b| (&a.client, a.step).cmp(&(&b.client, b.step)));
        Ok(steps)
    }

    /// Whether some quadratics are bounds of losses that are exact otherwise.
    pub fn has_bounds(&self) -> bool {
        self.updates().any(|update| update.task().head.exactness != Exactness::Exact)
    }
}

/// Client and step from the name of a task.
fn client_and_step(name: &str) -> Result<(&str, u64)> {
    let plain = name.strip_suffix(DIAGONAL).unwrap_or(name);
    let parts =
        plain.rsplit_once('/').and_then(|(client, step)| Some((client, step.parse().ok()?)));
    parts.filter(|(client, _)| is_name(client)).ok_or_else(|| Error::State {
        reason: format!(
            "task `{name}` is no client's step: this model was not made by a federation"
        ),
    })
}
