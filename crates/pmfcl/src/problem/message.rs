//! Passes and their answers as bytes, for engines whose workers are other processes.
//!
//! ```text
//! pass    "PMFP" | version u16 | kind u8 | what the kind holds                                        | CRC-32 u32
//! answer  "PMFA" | version u16 | range u8, 2 × f64 | sums u32, f64 … | tasks u32, length u32, bytes … | CRC-32 u32
//! ```
//!
//! Little-endian. A text is its length (u32) and UTF-8; parameters are `m u32 | p u32 | m·p × f64`. A loss travels by its
//! spec, so one of the user's own cannot. The sample of an answer has no form as bytes: rows reach no message.

use std::sync::Arc;

use super::bytes::{BytesError, Encoding, Reader, invalid};
use super::logistic::passes::{LogisticPass, Question};
use super::pass::{Partial, Pass};
use super::task::TaskSummary;
use super::{Problem, ROW_LOSSES};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::summary::{Summary, crc32};
use crate::theta::Theta;

const PASS: &[u8; 4] = b"PMFP";
const ANSWER: &[u8; 4] = b"PMFA";
const VERSION: u16 = 1;
/// Most columns or targets of an answer without samples.
const MOST_COLUMNS: usize = 1 << 20;

/// Bytes that are being written.
struct Writer(Vec<u8>);

impl Writer {
    fn new(magic: [u8; 4]) -> Self {
        let mut out = magic.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        Self(out)
    }

    fn size(&mut self, size: usize) {
        self.0.extend_from_slice(&(size as u32).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.size(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn doubles<'a>(&mut self, numbers: impl IntoIterator<Item = &'a f64>) {
        numbers.into_iter().for_each(|v| self.0.extend_from_slice(&v.to_le_bytes()));
    }

    fn theta(&mut self, theta: &Theta) {
        self.size(theta.width());
        self.size(theta.targets());
        self.doubles(theta.cells());
    }

    fn finish(mut self) -> Vec<u8> {
        let check = crc32(&self.0);
        self.0.extend_from_slice(&check.to_le_bytes());
        self.0
    }
}

/// What is between magic and checksum.
fn opened(bytes: &[u8], magic: [u8; 4]) -> Result<Reader<'_>, BytesError> {
    if bytes.len() < 10 || bytes[..4] != magic {
        let name = String::from_utf8_lossy(&magic).into_owned();
        return Err(invalid(format!("it does not begin with {name}")));
    }
    let (body, check) = bytes.split_at(bytes.len() - 4);
    if crc32(body).to_le_bytes() != check {
        return Err(invalid("the checksum does not match: bytes were changed or cut off"));
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version != VERSION {
        return Err(invalid(format!("version {version}; this program reads version {VERSION}")));
    }
    Ok(Reader(&body[6..]))
}

fn text_of(rest: &mut Reader<'_>) -> Result<String, BytesError> {
    let length = rest.size()?;
    let text =
        std::str::from_utf8(rest.take(length)?).map_err(|_| invalid("a text is not UTF-8"))?;
    Ok(text.to_owned())
}

fn theta_of(rest: &mut Reader<'_>) -> Result<Theta, BytesError> {
    let (m, p) = (rest.size()?, rest.size()?);
    Ok(Theta::from_columns(m, p, rest.doubles(m.saturating_mul(p))?)?)
}

fn loss_of(rest: &mut Reader<'_>) -> Result<Arc<dyn Loss>, BytesError> {
    let spec = text_of(rest)?;
    match Problem::parse(&spec, None)? {
        Problem::RowWise(row_wise) => Ok(row_wise.shared()),
        _ => Err(invalid(format!("{spec} is no loss of one row"))),
    }
}

fn all_read(rest: &Reader<'_>) -> Result<(), BytesError> {
    if rest.0.is_empty() { Ok(()) } else { Err(invalid("bytes are left over")) }
}

impl Pass {
    /// The pass as bytes, for a worker elsewhere.
    ///
    /// # Errors
    /// When the loss is the user's own, which no other process can make from its name.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = Writer::new(*PASS);
        match self {
            Self::Summarize { sample } => out.0.extend_from_slice(&[0, u8::from(*sample)]),
            Self::Look => out.0.push(1),
            Self::Majorize { loss, theta, newton } => {
                out.0.extend_from_slice(&[2, u8::from(*newton)]);
                out.text(&known(loss)?);
                out.theta(theta);
            }
            Self::Residuals(theta) => {
                out.0.push(3);
                out.theta(theta);
            }
            Self::CertifyRows { loss, theta, step } => {
                out.0.push(4);
                out.text(&known(loss)?);
                out.theta(theta);
                out.theta(step);
            }
            Self::Logistic(pass) => {
                out.0.push(5);
                write_logistic(pass, &mut out);
            }
        }
        Ok(out.finish())
    }

    /// Reads what [`Pass::to_bytes`] wrote.
    ///
    /// # Errors
    /// On any bytes that are not exactly a pass.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BytesError> {
        let mut rest = opened(bytes, *PASS)?;
        let pass = match rest.byte()? {
            0 => Self::Summarize { sample: rest.byte()? > 0 },
            1 => Self::Look,
            2 => {
                let newton = rest.byte()? > 0;
                Self::Majorize { loss: loss_of(&mut rest)?, theta: theta_of(&mut rest)?, newton }
            }
            3 => Self::Residuals(theta_of(&mut rest)?),
            4 => Self::CertifyRows {
                loss: loss_of(&mut rest)?,
                theta: theta_of(&mut rest)?,
                step: theta_of(&mut rest)?,
            },
            5 => Self::Logistic(read_logistic(&mut rest)?),
            kind => return Err(invalid(format!("there is no pass of kind {kind}"))),
        };
        all_read(&rest)?;
        Ok(pass)
    }
}

/// The spec of a loss that goes by its name.
fn known(loss: &Arc<dyn Loss>) -> Result<String> {
    let spec = loss.spec();
    let name = spec.split(':').next().unwrap_or_default();
    if ROW_LOSSES.iter().any(|(own, _)| *own == name) {
        return Ok(spec);
    }
    Err(Error::Unsupported {
        operation: "a loss of your own in other processes",
        reason: format!("they do not know `{spec}`; fit it where it is defined"),
    })
}

fn write_logistic(pass: &LogisticPass, out: &mut Writer) {
    out.size(pass.classes.len());
    pass.classes.iter().for_each(|class| out.text(class));
    out.size(pass.left_out.len());
    for (theta, step) in pass.left_out.iter() {
        out.theta(theta);
        out.theta(step);
    }
    let (kind, thetas, curvature) = match &pass.question {
        Question::Sizes => (0, vec![], None),
        Question::Evaluate(theta) => (1, vec![theta], None),
        Question::Curvature(theta) => (2, vec![theta], None),
        Question::SharedCurvature(theta) => (3, vec![theta], None),
        Question::ClassCurvatures(theta) => (4, vec![theta], None),
        Question::Multiply(theta, d) => (5, vec![theta, d], None),
        Question::Expand(theta, curvature) => (6, vec![theta], Some(curvature)),
        Question::Certify(theta, d) => (7, vec![theta, d], None),
    };
    out.0.push(kind);
    thetas.into_iter().for_each(|theta| out.theta(theta));
    if let Some(curvature) = curvature {
        out.text(&curvature.to_string());
    }
}

fn read_logistic(rest: &mut Reader<'_>) -> Result<LogisticPass, BytesError> {
    let mut classes = Vec::new();
    for _ in 0..rest.size()? {
        classes.push(text_of(rest)?);
    }
    let mut left_out = Vec::new();
    for _ in 0..rest.size()? {
        left_out.push((theta_of(rest)?, theta_of(rest)?));
    }
    let question = match rest.byte()? {
        0 => Question::Sizes,
        1 => Question::Evaluate(theta_of(rest)?),
        2 => Question::Curvature(theta_of(rest)?),
        3 => Question::SharedCurvature(theta_of(rest)?),
        4 => Question::ClassCurvatures(theta_of(rest)?),
        5 => Question::Multiply(theta_of(rest)?, theta_of(rest)?),
        6 => Question::Expand(theta_of(rest)?, text_of(rest)?.parse()?),
        7 => Question::Certify(theta_of(rest)?, theta_of(rest)?),
        kind => return Err(invalid(format!("there is no question of kind {kind}"))),
    };
    Ok(LogisticPass { classes: classes.into(), left_out: left_out.into(), question })
}

impl Partial {
    /// The answer as bytes, without a sample of rows.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(*ANSWER);
        out.0.push(u8::from(self.range.is_some()));
        out.doubles(&self.range.unwrap_or_default());
        out.size(self.sums.len());
        out.doubles(&self.sums);
        out.size(self.tasks.len());
        for task in &self.tasks {
            if task.head.samples > 0.0 {
                let bytes = task.to_bytes(Encoding::Packed);
                out.size(bytes.len());
                out.0.extend_from_slice(&bytes);
            } else {
                // Rows without weight: nothing but a shape.
                out.size(0);
                out.size(task.quadratic.width());
                out.size(task.quadratic.targets());
            }
        }
        out.finish()
    }

    /// Reads what [`Partial::to_bytes`] wrote.
    ///
    /// # Errors
    /// On any bytes that are not exactly an answer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BytesError> {
        let mut rest = opened(bytes, *ANSWER)?;
        let ranged = rest.byte()? > 0;
        let range = [rest.double()?, rest.double()?];
        let count = rest.size()?;
        let sums = rest.doubles(count)?;
        let mut tasks = Vec::new();
        for _ in 0..rest.size()? {
            let length = rest.size()?;
            tasks.push(if length > 0 {
                TaskSummary::from_bytes(rest.take(length)?, usize::MAX)?
            } else {
                let (m, p) = (rest.size()?, rest.size()?);
                if m == 0 || p == 0 || m.max(p) > MOST_COLUMNS {
                    return Err(invalid("its sizes are invalid"));
                }
                TaskSummary::exact(Summary::empty(m, p), None)
            });
        }
        all_read(&rest)?;
        let range = ranged.then_some(range);
        Ok(Self { tasks, sums, range, sample: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::logistic::Curvature;

    fn theta(p: usize) -> Theta {
        Theta::from_columns(3, p, (0..3 * p).map(|i| (i as f64).sin() / 3.0).collect()).unwrap()
    }

    fn passes() -> Vec<Pass> {
        let classes: Arc<[String]> = ["low", "mid", "höchste"].map(str::to_owned).to_vec().into();
        let huber = || match Problem::parse("huber:1.3456789012345", None).unwrap() {
            Problem::RowWise(row_wise) => row_wise.shared(),
            _ => unreachable!(),
        };
        let questions = vec![
            Question::Sizes,
            Question::Evaluate(theta(3)),
            Question::Curvature(theta(3)),
            Question::SharedCurvature(theta(3)),
            Question::ClassCurvatures(theta(3)),
            Question::Multiply(theta(3), theta(3)),
            Question::Expand(theta(3), Curvature::Blend),
            Question::Expand(theta(3), Curvature::Fisher { draws: 3, seed: 9 }),
            Question::Certify(theta(3), theta(3)),
        ];
        let mut all = vec![
            Pass::Summarize { sample: true },
            Pass::Look,
            Pass::Majorize { loss: huber(), theta: theta(1), newton: true },
            Pass::Majorize { loss: huber(), theta: theta(2), newton: false },
            Pass::Residuals(theta(1)),
            Pass::CertifyRows { loss: huber(), theta: theta(1), step: theta(1) },
        ];
        for question in questions {
            let left_out: Arc<[(Theta, Theta)]> = vec![(theta(3), theta(3))].into();
            all.push(Pass::Logistic(LogisticPass { classes: classes.clone(), left_out, question }));
        }
        all
    }

    #[test]
    fn every_pass_comes_back_as_it_was() {
        for pass in passes() {
            let bytes = pass.to_bytes().unwrap();
            let back = Pass::from_bytes(&bytes).unwrap();
            assert_eq!(back.to_bytes().unwrap(), bytes);
            assert_eq!(format!("{back:?}"), format!("{pass:?}"));
        }
    }

    #[test]
    fn bytes_that_are_cut_or_changed_are_refused_and_never_panic() {
        for bytes in passes().iter().map(|pass| pass.to_bytes().unwrap()) {
            for end in 0..bytes.len() {
                assert!(Pass::from_bytes(&bytes[..end]).is_err());
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x41;
                assert!(Pass::from_bytes(&changed).is_err(), "{at}");
                // With a checksum that fits: any answer but a panic.
                let body = changed.len() - 4;
                let check = crc32(&changed[..body]).to_le_bytes();
                changed[body..].copy_from_slice(&check);
                let _ = Pass::from_bytes(&changed);
            }
        }
    }

    #[derive(Debug)]
    struct Own;
    impl Loss for Own {
        fn spec(&self) -> String {
            "own".to_owned()
        }
        fn at(&self, _: &[f64], _: &[f64], _: &mut [f64]) -> crate::loss::Point {
            crate::loss::Point { value: 0.0, curvature: 1.0 }
        }
        fn guaranteed(&self) -> bool {
            false
        }
    }

    #[test]
    fn answers_come_back_and_a_loss_of_ones_own_does_not_travel() {
        let task = TaskSummary::exact(Summary::empty(4, 2), None);
        let sums = vec![1.5, f64::NAN, f64::NEG_INFINITY, -0.0];
        let answer = Partial { tasks: vec![task], sums, range: Some([-1.0, 2.0]), sample: None };
        let bytes = answer.to_bytes();
        let back = Partial::from_bytes(&bytes).unwrap();
        assert_eq!(back.to_bytes(), bytes);
        assert_eq!((back.range, back.tasks[0].quadratic.width()), (Some([-1.0, 2.0]), 4));
        for end in 0..bytes.len() {
            assert!(Partial::from_bytes(&bytes[..end]).is_err());
        }
        let pass = Pass::Majorize { loss: Arc::new(Own), theta: theta(1), newton: false };
        assert!(pass.to_bytes().unwrap_err().to_string().contains("`own`"));
    }
}
