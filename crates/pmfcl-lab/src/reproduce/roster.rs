//! Who takes part, how each is set up, and how each is drawn.

use pmfcl::{Preference, Ridge};
use pmfcl_baselines::{
    Agem, AgemArguments, Der, DerArguments, Er, ErArguments, Ewc, EwcArguments, Icl, Method,
    Network, Projection, ProjectionArguments, Sgd, Si, SiArguments, Steps,
};
use pmfcl_oracle::recursion::Form;
use pmfcl_plot::{Dash, Marker, Paint};

use super::exact::{Exact, Keep};
use super::ours::{Paper, Pmf};

/// Examples in every replay buffer, in favour of those that have one: nearly eight times what PMF-CL keeps at d = 50.
pub const BUFFER: usize = 200;
/// Rows a step, and as many from the buffer.
pub const BATCH: usize = 10;
/// Steps a task has on average in a full run: enough for plain steps to converge at all but the smallest rates.
pub const STEPS: usize = 500;
/// Learning rates tried.
pub const RATES: [f64; 7] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1];
/// Decays tried.
pub const DECAYS: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.8];

/// A method of the regression runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// PMF-CL, least squares of minimum norm.
    Pmf,
    /// PMF-CL with its ridge chosen by cross-validation.
    PmfRidge,
    /// PMF-CL that prefers recent tasks.
    PmfDecay,
    /// The paper's recursion with `1/n` put in.
    Paper,
    /// The paper's recursion to the letter.
    Printed,
    /// Plain steps.
    Sgd,
    /// Experience replay.
    Er,
    /// Experience replay with no more memory than PMF-CL.
    ErSmall,
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
    /// The ideal continual learner: the new task within the minimizers of the old.
    Icl,
    /// Steps orthogonal to the rows of the past.
    Projection,
    /// All rows so far, by least squares.
    Joint,
    /// The last task alone, by least squares.
    Last,
}

/// How a method's line looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Colour.
    pub paint: Paint,
    /// Dashes.
    pub dash: Dash,
    /// Marker.
    pub marker: Marker,
}

/// What is tuned of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arguments {
    /// Learning rate; 0 where there is none.
    pub rate: f64,
    /// The method's other parameter, see [`Who::strength`]; 0 where there is nothing.
    pub strength: f64,
}

/// The stream a method is set up for.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Features.
    pub d: usize,
    /// Outputs: 1 number, or 2 scores.
    pub outputs: usize,
    /// Rows of a task, the mean.
    pub rows: f64,
    /// Gradient steps a task, on average.
    pub steps: usize,
    /// Seed of everything random in the method.
    pub seed: u64,
}

impl Shape {
    /// A linear model without intercept.
    fn network(&self) -> Network {
        Network::new(&[self.d, self.outputs], self.seed).without_intercepts()
    }

    fn steps(&self, rate: f64) -> Steps {
        let epochs = ((self.steps * BATCH) as f64 / self.rows).round().max(1.0) as usize;
        Steps { rate, batch: BATCH, epochs, seed: self.seed }
    }
}

impl Who {
    /// All of them, in the order of tables and legends.
    pub const ALL: [Self; 17] = [
        Self::Pmf,
        Self::PmfRidge,
        Self::PmfDecay,
        Self::Paper,
        Self::Printed,
        Self::Sgd,
        Self::Er,
        Self::Der,
        Self::DerPlus,
        Self::Si,
        Self::Ewc,
        Self::Agem,
        Self::ErSmall,
        Self::Icl,
        Self::Projection,
        Self::Joint,
        Self::Last,
    ];

    /// Those the paper compares with.
    pub const IN_PAPER: [Self; 4] = [Self::Sgd, Self::Er, Self::Der, Self::Si];

    /// All that is not PMF-CL and not joint training.
    pub const RIVALS: [Self; 11] = [
        Self::Sgd,
        Self::Er,
        Self::Der,
        Self::DerPlus,
        Self::Si,
        Self::Ewc,
        Self::Agem,
        Self::ErSmall,
        Self::Icl,
        Self::Projection,
        Self::Last,
    ];

    /// What to call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pmf => "PMF-CL",
            Self::PmfRidge => "PMF-CL, GCV ridge",
            Self::PmfDecay => "PMF-CL, decay",
            Self::Paper => "paper's recursion, λ = 1e-6",
            Self::Printed => "paper's recursion as printed",
            Self::Sgd => "SGD",
            Self::Er => "ER",
            Self::ErSmall => "ER, equal memory",
            Self::Der => "DER",
            Self::DerPlus => "DER++",
            Self::Si => "SI",
            Self::Ewc => "online EWC",
            Self::Agem => "A-GEM",
            Self::Icl => "ICL",
            Self::Projection => "projection",
            Self::Joint => "joint",
            Self::Last => "last task only",
        }
    }

    /// Colours as in the paper: red PMF-CL, blue SGD, green ER, orange DER, purple SI.
    pub fn look(self) -> Look {
        use {Dash as D, Marker as M};
        let (paint, dash, marker) = match self {
            Self::Pmf => (Paint::Series(1), D::Solid, M::Circle),
            Self::PmfRidge => (Paint::Series(1), D::DashDot, M::Plus),
            Self::PmfDecay => (Paint::Series(1), D::Dots, M::Star),
            Self::Paper => (Paint::Series(6), D::Dots, M::Cross),
            Self::Printed => (Paint::Series(6), D::DashDot, M::Wedge),
            Self::Sgd => (Paint::Series(0), D::Long, M::Square),
            Self::Er => (Paint::Series(2), D::DashDot, M::Triangle),
            Self::ErSmall => (Paint::Series(2), D::Dots, M::Triangle),
            Self::Der => (Paint::Series(4), D::Solid, M::Diamond),
            Self::DerPlus => (Paint::Series(4), D::Long, M::Plus),
            Self::Si => (Paint::Series(3), D::Dots, M::Wedge),
            Self::Ewc => (Paint::Series(5), D::Dots, M::Square),
            Self::Agem => (Paint::Series(6), D::Long, M::Diamond),
            Self::Icl => (Paint::Series(7), D::DashDot, M::Star),
            Self::Projection => (Paint::Series(0), D::Dots, M::Wedge),
            Self::Joint => (Paint::Ink, D::Dots, M::None),
            Self::Last => (Paint::Series(7), D::Long, M::Cross),
        };
        Look { paint, dash, marker }
    }

    /// What `strength` stands for.
    pub fn strength(self) -> Option<&'static str> {
        match self {
            Self::PmfDecay => Some("γ"),
            Self::Der => Some("α"),
            Self::DerPlus => Some("α = β"),
            Self::Si => Some("c"),
            Self::Ewc => Some("λ"),
            Self::Projection => Some("energy"),
            _ => None,
        }
    }

    /// Everything that is tried before the trials; nothing for methods without arguments.
    pub fn candidates(self) -> Vec<Arguments> {
        let with = |strengths: &[f64]| {
            let pairs = RATES.iter().flat_map(|&rate| strengths.iter().map(move |&s| (rate, s)));
            pairs.map(|(rate, strength)| Arguments { rate, strength }).collect()
        };
        match self {
            Self::PmfDecay => {
                DECAYS.iter().map(|&strength| Arguments { rate: 0.0, strength }).collect()
            }
            Self::Sgd | Self::Er | Self::ErSmall | Self::Agem => with(&[0.0]),
            Self::Der | Self::DerPlus => with(&[0.3, 1.0]),
            Self::Si | Self::Ewc => with(&[0.1, 1.0, 10.0]),
            Self::Projection => with(&[0.5, 0.9, 1.0]),
            _ => Vec::new(),
        }
    }

    /// Sets the method up.
    pub fn build(self, shape: Shape, arguments: Arguments) -> Box<dyn Method> {
        let d = shape.d;
        let pmf = |ridge, prefer| Box::new(Pmf::new(self.name(), ridge, prefer));
        let strength = arguments.strength;
        let replay = |buffer| ErArguments { buffer, minibatch: BATCH };
        let (network, steps) = (shape.network(), shape.steps(arguments.rate));
        match self {
            Self::Pmf => pmf(Ridge::Fixed(0.0), Preference::Samples),
            Self::PmfRidge => pmf(Ridge::Auto, Preference::Samples),
            Self::PmfDecay => pmf(Ridge::Auto, Preference::Decay(strength)),
            Self::Paper => Box::new(Paper::new(d, Form::Corrected)),
            Self::Printed => Box::new(Paper::new(d, Form::Printed)),
            Self::Sgd => Box::new(Sgd::new(network, steps)),
            Self::Er => Box::new(Er::new(network, steps, replay(BUFFER))),
            Self::ErSmall => Box::new(Er::new(network, steps, replay(equal_buffer(d)))),
            Self::Der | Self::DerPlus => {
                let beta = (self == Self::DerPlus).then_some(strength);
                let arguments =
                    DerArguments { buffer: BUFFER, minibatch: BATCH, alpha: strength, beta };
                Box::new(Der::new(network, steps, arguments))
            }
            Self::Si => Box::new(Si::new(network, steps, SiArguments { c: strength, xi: 1.0 })),
            Self::Ewc => {
                Box::new(Ewc::new(network, steps, EwcArguments { lambda: strength, gamma: 1.0 }))
            }
            Self::Agem => {
                let arguments = AgemArguments { buffer: BUFFER, minibatch: BATCH };
                Box::new(Agem::new(network, steps, arguments))
            }
            Self::Icl => Box::new(Icl::new(network)),
            Self::Projection => {
                Box::new(Projection::new(network, steps, ProjectionArguments { energy: strength }))
            }
            Self::Joint => Box::new(Exact::new(d, Keep::All)),
            Self::Last => Box::new(Exact::new(d, Keep::Last)),
        }
    }
}

/// Examples that fit into what PMF-CL keeps: a packed triangle and its targets, two numbers more.
pub fn equal_buffer(d: usize) -> usize {
    (d * (d + 1) / 2 + d + 2) / (d + 1)
}
