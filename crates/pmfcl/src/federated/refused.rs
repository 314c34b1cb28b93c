//! Why an upload was not taken. The server is unchanged.

use crate::error::Error;
use crate::problem::{BytesError, Digest};

/// Why an upload was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// More bytes than the rules allow, packed or unpacked.
    #[error("the upload takes {bytes} bytes; {most} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// Bytes that are no update.
    #[error("not an update: {reason}")]
    Bytes {
        /// What is wrong with them.
        reason: String,
    },
    /// A client that is not on the roster.
    #[error("client `{client}` is not on the roster")]
    Stranger {
        /// Its name.
        client: String,
    },
    /// Made for another loss, basis or set of classes.
    #[error(
        "client `{client}` sent an update for another model ({theirs}, this one is {ours}): loss, basis and classes \
         must be those of the server"
    )]
    WrongModel {
        /// The client.
        client: String,
        /// Digest of the agreement the update was made under.
        theirs: Digest,
        /// Digest of the server's.
        ours: Digest,
    },
    /// Sent by somebody else than the client it is of.
    #[error(
        "the sender is client `{sender}` and cannot send for client `{client}`: an upload is taken from the client it is of"
    )]
    OtherSender {
        /// The client in the update.
        client: String,
        /// Who sent it.
        sender: String,
    },
    /// A step that has not come yet.
    #[error("client `{client}` sent step {step}, and step {last} is the last that was asked for")]
    NotAsked {
        /// The client.
        client: String,
        /// The step.
        step: u64,
        /// The last step so far.
        last: u64,
    },
    /// The register is full.
    #[error(
        "client `{client}` sent an update to a full register ({held} updates of {bytes} bytes are held; \
         Rules::most_updates and Rules::most_total_bytes say how many may be)"
    )]
    Full {
        /// The client.
        client: String,
        /// Updates held.
        held: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// Another update is filed under the same client and step.
    #[error(
        "client `{client}` has sent another update for step {step} already: remove that one first, or use the next step"
    )]
    Replaced {
        /// The client.
        client: String,
        /// The step.
        step: u64,
    },
    /// Too few or too many samples.
    #[error("client `{client}` sent {samples} samples in step {step}: {must}")]
    Samples {
        /// The client.
        client: String,
        /// The step.
        step: u64,
        /// How many it says there are.
        samples: f64,
        /// What is allowed.
        must: String,
    },
    /// Numbers that no rows of this model have.
    #[error("client `{client}` sent numbers no rows have in step {step}: {reason}")]
    Implausible {
        /// The client.
        client: String,
        /// The step.
        step: u64,
        /// Which, and why.
        reason: String,
    },
}

impl Refused {
    /// Who sent it, where that could be read.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::TooLarge { .. } | Self::Bytes { .. } => None,
            Self::Stranger { client }
            | Self::WrongModel { client, .. }
            | Self::OtherSender { client, .. }
            | Self::NotAsked { client, .. }
            | Self::Full { client, .. }
            | Self::Replaced { client, .. }
            | Self::Samples { client, .. }
            | Self::Implausible { client, .. } => Some(client),
        }
    }

    pub(super) fn bytes(reason: impl Into<String>) -> Self {
        Self::Bytes { reason: reason.into() }
    }
}

impl From<Error> for Refused {
    /// What the summary's own reader says.
    fn from(error: Error) -> Self {
        match error {
            Error::Bytes { reason } => Self::Bytes { reason },
            other => Self::Bytes { reason: other.to_string() },
        }
    }
}

impl From<BytesError> for Refused {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::TooLarge { bytes, most } => Self::TooLarge { bytes, most },
            BytesError::Invalid(reason) => Self::Bytes { reason },
        }
    }
}
