//! What can go wrong in a round. The side that reports an error is unchanged.

/// What can go wrong in a round.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are no such message.
    #[error("not {what}: {reason}")]
    Bytes {
        /// What was expected.
        what: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// Parameters that give no security or no room.
    #[error("parameters of a round: {reason}")]
    Params {
        /// Which, and what to do.
        reason: String,
    },
    /// A message of another round.
    #[error(
        "{what} belongs to another round, other parameters or another roster: all sides must hold the same round id and \
         parameters, and a round starts anew when its roster changes"
    )]
    OtherRound {
        /// The message.
        what: &'static str,
    },
    /// A call out of turn, or a second time.
    #[error("{call} is not possible now: {reason}")]
    Turn {
        /// What was asked for.
        call: &'static str,
        /// Why it is refused.
        reason: &'static str,
    },
    /// Fewer than the threshold. Nothing was revealed.
    #[error(
        "{found} {what}, the threshold is {threshold}: nothing is revealed; start a round anew when more clients are there"
    )]
    TooFew {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        threshold: usize,
    },
    /// A roster, inbox or list of survivors an honest server does not send.
    #[error("refused: {reason}")]
    Refused {
        /// What is wrong with it.
        reason: String,
    },
    /// What one client sent is wrong.
    #[error("client `{client}`: {reason}")]
    Client {
        /// The client.
        client: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A number that does not fit the agreed fixed point.
    #[error("{number} is {value:e}: {must}")]
    Number {
        /// Which number.
        number: String,
        /// Its value.
        value: f64,
        /// What it must be, and what to do.
        must: String,
    },
    /// Sums of another shape than agreed.
    #[error("{what} has {found} numbers, {expected} were agreed")]
    Shape {
        /// What.
        what: &'static str,
        /// Numbers agreed.
        expected: usize,
        /// Numbers found.
        found: usize,
    },
    /// The unmasked sum is no sum of what was agreed.
    #[error(
        "the sum is outside the agreed range, so it is none of honest inputs: a client sent other numbers than it should, or a message was changed on \
         its way; start a round anew"
    )]
    Sum,
    /// The operating system gave no random numbers.
    #[error("no random numbers: {reason}")]
    Random {
        /// What it said.
        reason: String,
    },
    /// What the core says.
    #[error(transparent)]
    Core(#[from] pmfcl::Error),
}

/// Result of a step of a round.
pub type Result<T, E = Error> = std::result::Result<T, E>;
