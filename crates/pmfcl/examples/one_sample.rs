//! What an upload gives away: reads the bytes clients sent, and prints their rows.
//!
//! `cargo run -p pmfcl --example one_sample`

use pmfcl::federated::{Refused, Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::summary::Products;
use pmfcl::{Design, Error, Problem, Rows, Settings, TaskRows};

/// Far above any upload here.
const MOST: usize = 1 << 20;

/// `XᵀX[i][j]` of packed sums.
fn cell(sums: &Products, i: usize, j: usize) -> f64 {
    let (i, j) = (i.min(j), i.max(j));
    sums.xx[i * sums.features - i * i.saturating_sub(1) / 2 + j - i]
}

/// The one row behind sums of one: with an intercept, `XᵀX[0] = 1·(1, x)` and `XᵀY[0] = 1·y`.
fn the_row(sums: &Products) -> (Vec<f64>, Vec<f64>) {
    (sums.xx[1..sums.features].to_vec(), sums.xy[..sums.targets].to_vec())
}

/// The row and the target behind an upload of one row.
pub(crate) fn one_row(bytes: &[u8]) -> Result<(Vec<f64>, Vec<f64>), Refused> {
    Ok(the_row(&Update::from_bytes(bytes, MOST)?.task().quadratic.products()))
}

/// The row by which a later upload differs from an earlier one.
pub(crate) fn row_between(before: &[u8], after: &[u8]) -> Result<(Vec<f64>, Vec<f64>), Refused> {
    let before = Update::from_bytes(before, MOST)?.task().quadratic.products();
    let mut sums = Update::from_bytes(after, MOST)?.task().quadratic.products();
    sums.xx.iter_mut().zip(&before.xx).for_each(|(a, b)| *a -= b);
    sums.xy.iter_mut().zip(&before.xy).for_each(|(a, b)| *a -= b);
    Ok(the_row(&sums))
}

/// A basis of the space the design rows span, in reduced echelon form: the rows of `XᵀX` span the same.
pub(crate) fn row_space(bytes: &[u8]) -> Result<Vec<Vec<f64>>, Refused> {
    let sums = Update::from_bytes(bytes, MOST)?.task().quadratic.products();
    let m = sums.features;
    let mut rows: Vec<Vec<f64>> =
        (0..m).map(|i| (0..m).map(|j| cell(&sums, i, j)).collect()).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for j in 0..m {
        let largest =
            (0..rows.len()).max_by(|a, b| rows[*a][j].abs().total_cmp(&rows[*b][j].abs()));
        let Some(at) = largest.filter(|&i| rows[i][j].abs() > 1e-9 * cell(&sums, j, j)) else {
            continue;
        };
        let mut lead = rows.swap_remove(at);
        let pivot = lead[j];
        lead.iter_mut().for_each(|v| *v /= pivot);
        for row in rows.iter_mut().chain(&mut basis) {
            let factor = row[j];
            row.iter_mut().zip(&lead).for_each(|(v, l)| *v -= factor * l);
        }
        basis.push(lead);
    }
    Ok(basis)
}

/// An agreement on `columns` features, one target and an intercept.
pub(crate) fn agreement(columns: usize) -> Result<Agreement, Error> {
    let design = Design::linear(columns, true)?;
    Agreement::new(Problem::squared(), Settings::default(), design, 1)
}

/// The bytes a client sends for its rows.
pub(crate) fn upload(columns: usize, step: u64, x: &[f64], y: &[f64]) -> Result<Vec<u8>, Error> {
    let rows = TaskRows::new(Rows::new(x, columns)?, Rows::new(y, 1)?);
    Ok(Update::of_rows(&agreement(columns)?, "clinic", step, rows)?.to_bytes())
}

/// What is printed.
pub(crate) fn lines() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let (age, pressure, glucose, stay) = (47.0, 128.5, 6.1, 3.0);
    let bytes = upload(3, 0, &[age, pressure, glucose], &[stay])?;
    let (x, y) = one_row(&bytes)?;
    let mut out = vec![format!("one row, {} bytes: features {x:?}, target {y:?}", bytes.len())];

    let few = upload(3, 1, &[47.0, 128.5, 6.1, 61.0, 141.0, 7.4], &[3.0, 9.0])?;
    out.push(
        "two rows of four design columns (1, age, pressure, glucose), in the span of".to_owned(),
    );
    out.extend(row_space(&few)?.iter().map(|row| format!("  {row:.6?}")));

    let rules = Rules { least_samples: 5.0, ..Rules::default() };
    let refused = Server::new(agreement(3)?, rules)?.accept_bytes(&bytes);
    let answer = refused.err().map_or("taken".to_owned(), |refused| refused.to_string());
    out.push(format!("Rules::least_samples = 5: {answer}"));

    let many = |rows: u32| {
        let x: Vec<f64> = (0..3 * rows).map(|i| f64::from(i * i % 97)).collect();
        let y: Vec<f64> = (0..rows).map(|i| f64::from(i * 7 % 11)).collect();
        (x, y)
    };
    let ((x, y), (x1, y1)) = (many(20), many(21));
    let (row, target) = row_between(&upload(3, 2, &x, &y)?, &upload(3, 3, &x1, &y1)?)?;
    out.push(format!(
        "20 rows, then the same and one more: it is {row:.6?} with target {target:.6?}"
    ));
    Ok(out)
}

#[allow(dead_code, clippy::print_stdout, reason = "an example prints; a test takes the rest")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    lines()?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
