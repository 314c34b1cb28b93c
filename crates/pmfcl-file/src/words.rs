//! The words settings are called by, in files and on the command line.

use pmfcl::classify::{Scheme, Shrinkage, Temperature};
use pmfcl::loss::logistic::Curvature;
use pmfcl::{Accumulator, Basis, ClassLoss, MemoryKind, Preference, Ridge};

/// A setting that goes by a word.
pub trait Word: Sized {
    /// What may be written, for messages.
    const WORDS: &'static str;

    /// The setting a word stands for.
    fn read(word: &str) -> Option<Self>;

    /// Its word; [`Word::read`] gives the setting back.
    fn word(&self) -> String;

    /// As [`Word::read`], with a message that says what would have been right.
    ///
    /// # Errors
    /// When the word stands for nothing.
    fn parse(word: &str) -> Result<Self, String> {
        Self::read(word).ok_or_else(|| format!("`{word}` is none of {}", Self::WORDS))
    }
}

/// Implements [`Word`] for an enumeration without numbers.
macro_rules! words {
    ($type:ty, $list:literal, $($word:literal => $value:expr),+ $(,)?) => {
        impl Word for $type {
            const WORDS: &'static str = $list;

            fn read(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($value),)+
                    _ => None,
                }
            }

            fn word(&self) -> String {
                [$(($value, $word)),+]
                    .into_iter()
                    .find(|(value, _)| value == self)
                    .map_or_else(String::new, |(_, word)| word.to_owned())
            }
        }
    };
}

words!(MemoryKind, "ledger, compact", "ledger" => Self::Ledger, "compact" => Self::Compact);
words!(Accumulator, "qr, gram", "qr" => Self::Qr, "gram" => Self::Gram);
words!(
    ClassLoss,
    "squared, logistic, gaussian",
    "squared" => Self::Squared,
    "logistic" => Self::Logistic,
    "gaussian" => Self::Gaussian,
);
words!(Scheme, "one-shot, sequential", "one-shot" => Self::OneShot, "sequential" => Self::Sequential);

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

impl Word for Ridge {
    const WORDS: &'static str = "a number of 0 or more, auto, leave-one-task-out";

    fn read(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "leave-one-task-out" => Some(Self::LeaveOneTaskOut),
            other => number(other).filter(|x| *x >= 0.0).map(Self::Fixed),
        }
    }

    fn word(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::LeaveOneTaskOut => "leave-one-task-out".to_owned(),
            Self::Fixed(x) => x.to_string(),
        }
    }
}

impl Word for Preference {
    const WORDS: &'static str = "samples, equal, decay:G with G above 0 and at most 1";

    fn read(word: &str) -> Option<Self> {
        match word {
            "samples" => Some(Self::Samples),
            "equal" => Some(Self::Equal),
            other => other
                .strip_prefix("decay:")
                .and_then(number)
                .filter(|g| *g > 0.0 && *g <= 1.0)
                .map(Self::Decay),
        }
    }

    /// `chosen` for weights chosen task by task, which no word can tell.
    fn word(&self) -> String {
        match self {
            Self::Samples => "samples".to_owned(),
            Self::Equal => "equal".to_owned(),
            Self::Decay(g) => format!("decay:{g}"),
            Self::Chosen(_) => "chosen".to_owned(),
        }
    }
}

impl Word for Shrinkage {
    const WORDS: &'static str = "auto, diagonal:S, identity:S, ridge:S";

    fn read(word: &str) -> Option<Self> {
        if word == "auto" {
            return Some(Self::Auto);
        }
        let (name, value) = word.split_once(':')?;
        let value = number(value)?;
        match name {
            "diagonal" => Some(Self::Diagonal(value)),
            "identity" => Some(Self::Identity(value)),
            "ridge" => Some(Self::Ridge(value)),
            _ => None,
        }
    }

    fn word(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Diagonal(s) => format!("diagonal:{s}"),
            Self::Identity(s) => format!("identity:{s}"),
            Self::Ridge(s) => format!("ridge:{s}"),
        }
    }
}

impl Word for Temperature {
    const WORDS: &'static str = "auto, a number above 0";

    fn read(word: &str) -> Option<Self> {
        if word == "auto" { Some(Self::Auto) } else { number(word).map(Self::Fixed) }
    }

    fn word(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Fixed(t) => t.to_string(),
        }
    }
}

impl Word for Basis {
    const WORDS: &'static str =
        "linear, poly:Q, log, exp, power:A, spline:K, rbf:M, rff:M, relu:M, ntk:M";

    fn read(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    fn word(&self) -> String {
        self.to_string()
    }

    fn parse(word: &str) -> Result<Self, String> {
        word.parse().map_err(|e: pmfcl::basis::BasisError| e.to_string())
    }
}

impl Word for Curvature {
    const WORDS: &'static str = "bohning, sharp, hessian, blend, diagonal, fisher";

    fn read(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    fn word(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back<W: Word + PartialEq + std::fmt::Debug>(words: &[&str]) {
        for word in words {
            assert_eq!(W::parse(word).unwrap().word(), *word);
        }
        assert!(W::parse("nothing like it").unwrap_err().contains("none of"));
    }

    #[test]
    fn every_word_is_read_back() {
        back::<MemoryKind>(&["ledger", "compact"]);
        back::<Accumulator>(&["qr", "gram"]);
        back::<ClassLoss>(&["squared", "logistic", "gaussian"]);
        back::<Scheme>(&["one-shot", "sequential"]);
        back::<Ridge>(&["auto", "leave-one-task-out", "0", "0.1", "0.0000001"]);
        back::<Preference>(&["samples", "equal", "decay:0.9"]);
        back::<Shrinkage>(&["auto", "diagonal:0.5", "identity:0.1", "ridge:2"]);
        back::<Temperature>(&["auto", "1.5"]);
        back::<Curvature>(&["bohning", "sharp", "hessian", "blend", "diagonal"]);
        for bad in ["-1", "nan", "inf", ""] {
            assert!(Ridge::read(bad).is_none(), "{bad}");
        }
        for bad in ["decay:0", "decay:1.1", "decay:", "chosen"] {
            assert!(Preference::read(bad).is_none(), "{bad}");
        }
    }
}
