//! Bytes that are accepted as a summary are one: they come back as they were, and whatever is done with them ends
//! in finite numbers or in an error.

use pmfcl::{Summary, Theta};

use super::crc::crc32;

/// The bytes as they are, and with the checksum they should have.
pub fn run(bytes: &[u8]) {
    look(bytes);
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32(bytes).to_le_bytes());
    look(&sealed);
}

fn look(bytes: &[u8]) {
    let Ok(summary) = Summary::from_bytes(bytes) else { return };
    assert_eq!(summary.to_bytes(), bytes, "other bytes come back");
    let (m, p) = (summary.width(), summary.targets());
    // Wide ones are sound too, but slow to calculate with.
    if m > 64 || p > 64 {
        return;
    }
    for value in [0.0, 1.0, -1e3] {
        let theta =
            Theta::from_columns(m, p, vec![value; m * p]).expect("as many as there should be");
        if let Ok(loss) = summary.loss(&theta) {
            assert!(loss.is_finite(), "a loss of {loss}");
        }
        if let Ok(gradient) = summary.gradient(&theta) {
            assert!(
                gradient.cells().iter().all(|v| v.is_finite()),
                "a gradient that is not finite"
            );
        }
    }
    let whole = sound(summary.merge(&summary));
    sound(summary.merge(&Summary::empty(m, p)));
    sound(summary.scale(0.5));
    sound(summary.extend_features(m / 2, 1));
    sound(summary.extend_targets(p, 1));
    let turned: Vec<usize> = (0..m).rev().collect();
    sound(summary.rearrange(&turned, m));
    if let Some(whole) = whole {
        sound(whole.remove(&summary));
    }
}

/// What comes of a calculation is a summary again, or an error.
fn sound(result: pmfcl::Result<Summary>) -> Option<Summary> {
    let summary = result.ok()?;
    let back = Summary::from_bytes(&summary.to_bytes());
    assert_eq!(back.as_ref(), Ok(&summary), "no summary");
    Some(summary)
}
