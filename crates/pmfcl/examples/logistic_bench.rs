//! Times logistic regression, one task and many; `bench/sklearn_logistic.py` compares it with scikit-learn.
//!
//! ```text
//! cargo run --release -p pmfcl --example logistic_bench -- DIR [tasks] [rows] [features] [classes] [threads]
//! ```
//!
//! Writes the rows (`x.f64`, `y.u32`) and the parameters found (`theta_*.f64`) to DIR, so that others can be
//! timed on the same numbers and every answer be checked by someone else's arithmetic.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::path::Path;
use std::time::Instant;

use pmfcl::problem::logistic::{Curvature, Minimum, Objective, OneTask};
use pmfcl::{Design, Penalty, Rows, Summary, Theta, solve};

/// Uniform and normal numbers from a seed (splitmix64, Box and Muller).
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// Correlated features of different units, and labels drawn from a softmax whose parameters drift.
fn stream(tasks: usize, n: usize, d: usize, classes: usize) -> (Vec<f64>, Vec<u32>) {
    let mut draws = Draws(20_260_518);
    let mut theta: Vec<f64> = (0..d * classes).map(|_| draws.normal()).collect();
    let (mut x, mut y) = (Vec::with_capacity(tasks * n * d), Vec::with_capacity(tasks * n));
    for _ in 0..tasks {
        for _ in 0..n {
            let common = draws.normal();
            let row: Vec<f64> = (0..d).map(|_| 0.5 * common + draws.normal()).collect();
            let eta: Vec<f64> = theta
                .chunks_exact(d)
                .map(|t| {
                    1.5 * t.iter().zip(&row).map(|(t, x)| t * x).sum::<f64>() / (d as f64).sqrt()
                })
                .collect();
            // The largest of η plus Gumbel noise is a draw from the softmax.
            let noisy: Vec<f64> = eta.iter().map(|e| e - (-draws.uniform().ln()).ln()).collect();
            let best = (0..classes).fold(0, |a, k| if noisy[k] > noisy[a] { k } else { a });
            x.extend(row.iter().enumerate().map(|(j, v)| v * (1.0 + j as f64 / 16.0)));
            y.push(best as u32);
        }
        for t in &mut theta {
            *t += 0.2 * draws.normal();
        }
    }
    (x, y)
}

/// Seconds on the wall and, where the system tells, on the processor (of the main thread: all there is with one thread).
struct Clock(Instant, f64);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), Self::processor())
    }

    fn processor() -> f64 {
        let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
        let spent = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
        spent.map_or(f64::NAN, |ns| ns * 1e-9)
    }

    fn read(&self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), Self::processor() - self.1)
    }
}

fn save(directory: &Path, name: &str, theta: &Theta) -> std::io::Result<()> {
    let bytes: Vec<u8> = theta.cells().iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(directory.join(name), bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = Path::new(arguments.first().ok_or("give a directory")?);
    let number = |i: usize, default: usize| {
        arguments.get(i).map_or(Ok(default), |text| text.parse::<usize>())
    };
    let (tasks, n, d, classes) =
        (number(1, 20)?, number(2, 20_000)?, number(3, 64)?, number(4, 10)?);
    let threads = number(5, std::thread::available_parallelism().map_or(1, usize::from))?;
    std::fs::create_dir_all(directory)?;
    let (x, y) = stream(tasks, n, d, classes);
    std::fs::write(
        directory.join("x.f64"),
        x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>(),
    )?;
    std::fs::write(
        directory.join("y.u32"),
        y.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>(),
    )?;
    let design = Design::linear(d, true)?;
    let mut penalty = vec![1.0; d + 1];
    penalty[0] = 0.0;
    let rows = |t: usize| {
        let (x, y) = (&x[t * n * d..(t + 1) * n * d], &y[t * n..(t + 1) * n]);
        OneTask::new(&design, Rows::new(x, d)?, (y, classes), None, threads)
    };

    println!("what,tolerance or task,wall,processor,steps,gradient,loss");
    for tolerance in [1e-4, 1e-6, 1e-8, 1e-10] {
        let objective = Objective { scale: 1.0, past: None, penalty: &penalty };
        let mut best = (f64::INFINITY, f64::INFINITY);
        let mut found = rows(0)?.minimize_to(&objective, None, tolerance)?;
        for _ in 0..3 {
            let clock = Clock::start();
            found = rows(0)?.minimize_to(&objective, None, tolerance)?;
            let (wall, processor) = clock.read();
            best = (best.0.min(wall), best.1.min(processor));
        }
        let Minimum { iterations, gradient, loss, .. } = found;
        let (wall, processor) = best;
        println!(
            "single,{tolerance:e},{wall:.4},{processor:.4},{iterations},{gradient:.2e},{loss:.6}"
        );
        save(directory, &format!("theta_{tolerance:e}.f64"), &found.theta)?;
    }
    for (name, sequential) in [("sequential", true), ("one-shot", false)] {
        let mut past: Option<Summary> = None;
        let mut start: Option<Theta> = None;
        let mut own = 0.0;
        for t in 0..tasks {
            let clock = Clock::start();
            let share = if sequential { 1.0 } else { 1.0 / tasks as f64 };
            let share: Vec<f64> = penalty.iter().map(|p| p * share).collect();
            let mut task = rows(t)?;
            let past_quadratic = past.as_ref().filter(|_| sequential);
            let objective = Objective { scale: 1.0, past: past_quadratic, penalty: &share };
            let found = task.minimize(&objective, start.as_ref())?;
            let curvature = if sequential { Curvature::Blend } else { Curvature::Sharp };
            let part = task.expand(&found.theta, curvature)?;
            past = Some(match past {
                Some(past) => past.merge(&part)?,
                None => part,
            });
            if let (false, Some(past)) = (sequential, &past) {
                solve(past, true, Penalty::new(1.0 / past.n(), false)?, None)?;
            }
            let (wall, processor) = clock.read();
            let Minimum { iterations, gradient, loss, theta, .. } = found;
            println!("{name},{t},{wall:.4},{processor:.4},{iterations},{gradient:.2e},{loss:.6}");
            let clock = Clock::start();
            let least = task.least_loss(Some(&theta))?;
            own += clock.read().0;
            assert!(least.value <= loss, "{least:?}");
            start = Some(theta);
        }
        println!("# {name}: {own:.2} s more for the certified least loss of all tasks");
    }
    Ok(())
}
