//! A register read back from the model it made: a server that is started again goes on where it was.

use super::update::{Bound, Numbers, Update, UpdateForm};
use super::{Agreement, Joint, Rules, Server};
use crate::classify::{Classifier, TaskNote};
use crate::error::{Error, Result};

/// What the task of a diagonal update is called beside client and step.
const DIAGONAL: &str = " (diagonal)";

impl Update {
    /// The name of its task in the joint model.
    pub(super) fn task(&self) -> String {
        let form = if self.form == UpdateForm::Diagonal { DIAGONAL } else { "" };
        format!("{}/{}{form}", self.client, self.step)
    }
}

impl Server {
    /// The server that made this model, with everything it had accepted. Rules that have changed meanwhile hold for what is
    /// yet to come.
    ///
    /// # Errors
    /// When the model is not one of this agreement, was not made by a federation, or its summaries are elsewhere.
    pub fn resume(agreement: Agreement, rules: Rules, joint: &Joint) -> Result<Self> {
        let mut server = Self::new(agreement, rules)?;
        let (learner, classifier) = match joint {
            Joint::Values(learner) => (&**learner, None),
            Joint::Classes(classifier) => (classifier.learner(), Some(&**classifier)),
        };
        let missing = learner.away();
        if missing > 0 {
            return Err(Error::Away { operation: "going on with a federation", missing });
        }
        let ours = server.agreement.design();
        let expected = (ours.width(), server.agreement.targets());
        for (record, summary) in learner.records().iter().zip(learner.at_hand()) {
            let (client, step, form) = taken_apart(&record.name)?;
            if (summary.width(), summary.targets()) != expected || learner.design() != Some(ours) {
                return Err(Error::Parts {
                    reason: "the model is one of another federation".to_owned(),
                });
            }
            let bound = if server.agreement.is_bounded() {
                Some(bound(&server.agreement, classifier, &record.name, record.min_loss)?)
            } else {
                None
            };
            let update = Update {
                client: client.to_owned(),
                step,
                model: server.agreement.fingerprint(),
                form,
                numbers: Numbers::Double,
                summary: summary.clone(),
                bound,
            };
            server.register.insert((client.to_owned(), step), update);
        }
        Ok(server)
    }
}

/// Client, step and form from the name of a task.
fn taken_apart(name: &str) -> Result<(&str, u64, UpdateForm)> {
    let (plain, form) = match name.strip_suffix(DIAGONAL) {
        Some(plain) => (plain, UpdateForm::Diagonal),
        None => (name, UpdateForm::Exact),
    };
    let parts =
        plain.rsplit_once('/').and_then(|(client, step)| Some((client, step.parse().ok()?)));
    let Some((client, step)) = parts.filter(|(client, _)| super::update::is_name(client)) else {
        return Err(Error::Parts {
            reason: format!(
                "task `{name}` is no client's step: this model was not made by a federation"
            ),
        });
    };
    Ok((client, step, form))
}

fn bound(
    agreement: &Agreement,
    classifier: Option<&Classifier>,
    name: &str,
    least: f64,
) -> Result<Bound> {
    let note = match classifier {
        Some(classifier) => classifier.note(name)?,
        None => TaskNote::default(),
    };
    let Some(moments) = note.moments else {
        return Err(Error::Parts { reason: format!("task `{name}` lacks what log-loss needs") });
    };
    let count = |class: &String| {
        note.counts.iter().find(|(known, _)| known == class).map_or(0.0, |(_, count)| *count)
    };
    let counts = agreement.class_names().iter().map(count).collect();
    Ok(Bound { least, separable: note.separable == Some(true), counts, moments })
}
