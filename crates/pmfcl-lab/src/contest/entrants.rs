//! Who can take part.

use pmfcl::Preference;
use pmfcl_baselines::{
    Agem, AgemArguments, Der, DerArguments, Er, ErArguments, Ewc, EwcArguments, Icl, Joint, Method,
    Network, Projection, ProjectionArguments, Sgd, Si, SiArguments, Steps,
};

use pmfcl_plot::{Dash, Marker, Paint};

use super::arena::Goal;
use super::ours::{ClassLoss, Keep, Ours};
use super::tune::Arguments;
use super::{Arena, Error, Rules};
use crate::reproduce::roster::{Look, Who};

/// A method by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrant {
    /// PMF-CL: least squares for numbers, linear discriminants for classes.
    Pmfcl,
    /// PMF-CL with least squares on class indicators.
    Squared,
    /// PMF-CL with log-loss, sequential.
    Logistic,
    /// PMF-CL that weighs every earlier task half as much.
    Decay,
    /// All rows of all tasks so far, learned at once by the same loss.
    Joint,
    /// The newest task alone, by the same loss.
    Last,
    /// Plain steps on the newest task.
    Sgd,
    /// Experience replay.
    Er,
    /// Dark experience replay.
    Der,
    /// The same with labels.
    DerPlus,
    /// Synaptic intelligence.
    Si,
    /// Online elastic weight consolidation.
    Ewc,
    /// Averaged gradient episodic memory.
    Agem,
    /// The ideal continual learner.
    Icl,
    /// Steps orthogonal to past rows.
    Projection,
    /// Steps on all rows of all tasks.
    JointSteps,
}

const ALL: [(Entrant, &str); 16] = [
    (Entrant::Pmfcl, "pmfcl"),
    (Entrant::Squared, "pmfcl-squared"),
    (Entrant::Logistic, "pmfcl-logistic"),
    (Entrant::Decay, "pmfcl-decay"),
    (Entrant::Joint, "joint"),
    (Entrant::Last, "last"),
    (Entrant::Sgd, "sgd"),
    (Entrant::Er, "er"),
    (Entrant::Der, "der"),
    (Entrant::DerPlus, "der++"),
    (Entrant::Si, "si"),
    (Entrant::Ewc, "oewc"),
    (Entrant::Agem, "agem"),
    (Entrant::Icl, "icl"),
    (Entrant::Projection, "projection"),
    (Entrant::JointSteps, "joint-sgd"),
];

/// Everyone who goes with a goal: some are for classes alone, some for linear models.
pub fn known(goal: &Goal, hidden: &[usize]) -> Vec<Entrant> {
    let classes = matches!(goal, Goal::Classes(_));
    ALL.into_iter()
        .map(|(entrant, _)| entrant)
        .filter(|entrant| match entrant {
            Entrant::Squared | Entrant::Logistic => classes,
            Entrant::Icl | Entrant::Projection => hidden.is_empty(),
            _ => true,
        })
        .collect()
}

impl Entrant {
    /// Its name.
    pub fn name(self) -> &'static str {
        ALL.into_iter().find(|(entrant, _)| *entrant == self).map_or("", |(_, name)| name)
    }

    /// How its line is drawn: as in the paper's figures, where it is in them.
    pub fn look(self) -> Look {
        let of = |paint, dash, marker| Look { paint: Paint::Series(paint), dash, marker };
        match self {
            Self::Pmfcl => Who::Pmf.look(),
            Self::Squared => of(1, Dash::Long, Marker::Triangle),
            Self::Logistic => of(1, Dash::DashDot, Marker::Square),
            Self::Decay => Who::PmfDecay.look(),
            Self::Joint => Who::Joint.look(),
            Self::Last => Who::Last.look(),
            Self::Sgd => Who::Sgd.look(),
            Self::Er => Who::Er.look(),
            Self::Der => Who::Der.look(),
            Self::DerPlus => Who::DerPlus.look(),
            Self::Si => Who::Si.look(),
            Self::Ewc => Who::Ewc.look(),
            Self::Agem => Who::Agem.look(),
            Self::Icl => Who::Icl.look(),
            Self::Projection => Who::Projection.look(),
            Self::JointSteps => of(7, Dash::Dots, Marker::Plus),
        }
    }

    /// Those of these names; all who go with the goal where none is given.
    ///
    /// # Errors
    /// When a name means nobody who does.
    pub fn chosen(names: &[String], goal: &Goal, hidden: &[usize]) -> Result<Vec<Self>, Error> {
        let there = known(goal, hidden);
        if names.is_empty() {
            return Ok(there);
        }
        names
            .iter()
            .map(|name| {
                there.iter().copied().find(|e| e.name() == name).ok_or_else(|| Error::Unknown {
                    name: name.clone(),
                    known: there.iter().map(|e| e.name()).collect::<Vec<_>>().join(", "),
                })
            })
            .collect()
    }

    /// One that has learned nothing.
    pub(super) fn start(
        self,
        arena: &Arena,
        rules: &Rules,
        arguments: Arguments,
    ) -> Result<Box<dyn Method>, Error> {
        let outputs = match &arena.goal {
            Goal::Values(units) => units.len(),
            Goal::Classes(count) => *count,
        };
        let widths: Vec<usize> =
            [arena.width].iter().chain(&rules.hidden).copied().chain([outputs]).collect();
        let network = Network::new(&widths, rules.seed);
        let steps = Steps {
            rate: arguments.rate,
            batch: rules.batch,
            epochs: rules.epochs,
            seed: rules.seed,
        };
        let (buffer, minibatch) = (rules.buffer, rules.batch);
        let (a, b) = arguments.weights;
        let ours = |keep, loss, prefer| -> Result<Box<dyn Method>, Error> {
            Ok(Box::new(Ours::new(arena, keep, loss, prefer)?))
        };
        Ok(match self {
            Self::Pmfcl => ours(Keep::Summaries, ClassLoss::Gaussian, Preference::Samples)?,
            Self::Squared => ours(Keep::Summaries, ClassLoss::Squared, Preference::Samples)?,
            Self::Logistic => ours(Keep::Summaries, ClassLoss::Logistic, Preference::Samples)?,
            Self::Decay => ours(Keep::Summaries, ClassLoss::Gaussian, Preference::Decay(0.5))?,
            Self::Joint => ours(Keep::Everything, ClassLoss::Gaussian, Preference::Samples)?,
            Self::Last => ours(Keep::Nothing, ClassLoss::Gaussian, Preference::Samples)?,
            Self::Sgd => Box::new(Sgd::new(network, steps)),
            Self::Er => Box::new(Er::new(network, steps, ErArguments { buffer, minibatch })),
            Self::Der => {
                let arguments = DerArguments { buffer, minibatch, alpha: a, beta: None };
                Box::new(Der::new(network, steps, arguments))
            }
            Self::DerPlus => {
                let arguments = DerArguments { buffer, minibatch, alpha: a, beta: Some(b) };
                Box::new(Der::new(network, steps, arguments))
            }
            Self::Si => Box::new(Si::new(network, steps, SiArguments { c: a, xi: b })),
            Self::Ewc => Box::new(Ewc::new(network, steps, EwcArguments { lambda: a, gamma: b })),
            Self::Agem => Box::new(Agem::new(network, steps, AgemArguments { buffer, minibatch })),
            Self::Icl => Box::new(Icl::new(network)),
            Self::Projection => {
                Box::new(Projection::new(network, steps, ProjectionArguments { energy: 1.0 }))
            }
            Self::JointSteps => Box::new(Joint::new(network, steps)),
        })
    }
}
