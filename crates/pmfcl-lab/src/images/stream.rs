//! The same images task by task: through a permutation, through a rotation, or some classes at a time.

use std::sync::Arc;

use pmfcl_baselines::{Inputs, Random, Targets, Task};

use super::rotate::rotation;
use super::{Images, Pixels};

/// A protocol: twenty tasks of all classes, or five of two classes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// 20 uniform permutations of the pixels (P-MNIST).
    Permuted,
    /// 20 rotations, angles uniform in `[0°, 180°)` (R-MNIST).
    Rotated,
    /// 5 × 2 digits, ten outputs from the start (S-MNIST).
    Split,
    /// The same with pieces of clothing.
    Fashion,
}

impl Benchmark {
    /// The set of images it is about.
    pub fn set(self) -> &'static str {
        if self == Self::Fashion { "fashion_mnist" } else { "mnist" }
    }

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Permuted => "P-MNIST: 20 permutations, one 10-way output",
            Self::Rotated => "R-MNIST: 20 rotations, one 10-way output",
            Self::Split => "S-MNIST: 5 tasks of two digits, class-incremental",
            Self::Fashion => "Split Fashion-MNIST: 5 tasks of two classes, class-incremental",
        }
    }

    /// Whether classes come a few at a time.
    pub fn splits(self) -> bool {
        matches!(self, Self::Split | Self::Fashion)
    }
}

/// Images as rows of numbers in `[0, 1]`, each number from a pixel of its own.
#[derive(Debug, Clone)]
struct View {
    pixels: Arc<Pixels>,
    /// Images shown.
    rows: Arc<[u32]>,
    /// Which pixel each number comes from, beyond the last for black; as they are where there is no list.
    from: Option<Arc<[u32]>>,
}

impl Inputs for View {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn width(&self) -> usize {
        self.pixels.side() * self.pixels.side()
    }

    fn write(&self, i: usize, out: &mut [f64]) {
        let image = self.pixels.image(self.rows[i] as usize);
        let shade = |pixel: u8| f64::from(pixel) / 255.0;
        match &self.from {
            None => out.iter_mut().zip(image).for_each(|(o, &p)| *o = shade(p)),
            Some(from) => {
                for (o, &at) in out.iter_mut().zip(from.iter()) {
                    *o = image.get(at as usize).map_or(0.0, |&p| shade(p));
                }
            }
        }
    }

    fn cell_bytes(&self) -> usize {
        1
    }
}

/// One task: what to learn, what to test on, and which classes it has.
#[derive(Debug, Clone)]
pub struct Stage {
    /// To learn.
    pub train: Task,
    /// To test on.
    pub test: Task,
    /// The classes of the task.
    pub classes: Vec<usize>,
}

/// Tasks to follow one after the other.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The protocol.
    pub benchmark: Benchmark,
    /// The tasks.
    pub stages: Vec<Stage>,
    /// Numbers in a row.
    pub width: usize,
    /// Classes in all, which is also the number of outputs.
    pub outputs: usize,
    /// Seed of permutations and angles, for whoever runs to derive others from.
    pub seed: u64,
    /// One image in this many is used.
    pub thin: usize,
    images: Images,
}

impl Stream {
    /// Tasks of a protocol; of every `thin` images of a task one is used.
    pub fn new(images: &Images, benchmark: Benchmark, seed: u64, thin: usize) -> Self {
        let (train, test) = (&images.train, &images.test);
        let outputs = train.codes().iter().chain(test.codes()).max().map_or(0, |c| *c as usize + 1);
        let side = train.side();
        let width = side * side;
        let stage = |classes: Vec<usize>, from: Option<Vec<u32>>| {
            let from: Option<Arc<[u32]>> = from.map(Into::into);
            let task = |pixels: &Arc<Pixels>| task(pixels, &classes, from.clone(), outputs, thin);
            Stage { train: task(train), test: task(test), classes: classes.clone() }
        };
        let all = || (0..outputs).collect::<Vec<_>>();
        let mut random = Random::of(seed, "tasks");
        let stages = match benchmark {
            Benchmark::Permuted => (0..20)
                .map(|_| {
                    let order = random.permutation(width);
                    stage(all(), Some(order.into_iter().map(|p| p as u32).collect()))
                })
                .collect(),
            Benchmark::Rotated => (0..20)
                .map(|_| stage(all(), Some(rotation(side, 180.0 * random.uniform()))))
                .collect(),
            Benchmark::Split | Benchmark::Fashion => {
                all().chunks(2).map(|pair| stage(pair.to_vec(), None)).collect()
            }
        };
        Self { benchmark, stages, width, outputs, seed, thin, images: images.clone() }
    }

    /// The same tasks and tests, with one in `by` of the images to learn.
    #[must_use]
    pub fn thinner(&self, by: usize) -> Self {
        let mut thin = Self::new(&self.images, self.benchmark, self.seed, self.thin * by);
        for (stage, own) in thin.stages.iter_mut().zip(&self.stages) {
            stage.test = own.test.clone();
        }
        thin
    }
}

fn task(
    pixels: &Arc<Pixels>,
    classes: &[usize],
    from: Option<Arc<[u32]>>,
    outputs: usize,
    thin: usize,
) -> Task {
    let codes = pixels.codes();
    let own = (0..pixels.len() as u32).filter(|&i| classes.contains(&(codes[i as usize] as usize)));
    let rows: Arc<[u32]> = own.step_by(thin.max(1)).collect();
    let codes = rows.iter().map(|&i| codes[i as usize]).collect();
    let view = View { pixels: Arc::clone(pixels), rows, from };
    Task { x: Arc::new(view), y: Arc::new(Targets::Classes { codes, count: outputs }) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Twenty classes' worth of nothing is no test: ten classes, each a bright column or row of its own in noise.
    pub(crate) fn images(train: usize, test: usize) -> Images {
        let draw = |count: usize, seed: u64| {
            let mut random = Random::new(seed);
            let (mut cells, mut codes) = (Vec::new(), Vec::new());
            for i in 0..count {
                let class = i % 10;
                for at in 0..25 {
                    let lit = if class < 5 { at % 5 == class } else { at / 5 == class - 5 };
                    cells.push(random.below(60) as u8 + if lit { 150 } else { 0 });
                }
                codes.push(class as u32);
            }
            Arc::new(Pixels::new(cells, codes, 5).unwrap())
        };
        Images { name: "made".into(), train: draw(train, 1), test: draw(test, 2) }
    }

    fn sorted(task: &Task, row: usize) -> Vec<u64> {
        let mut cells = vec![0.0; 25];
        task.x.write(row, &mut cells);
        cells.sort_by(f64::total_cmp);
        cells.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn permuted_tasks_hold_the_same_pixels_in_other_places() {
        let stream = Stream::new(&images(30, 20), Benchmark::Permuted, 3, 1);
        assert_eq!(stream.stages.len(), 20);
        let (mut first, mut second) = (vec![0.0; 25], vec![0.0; 25]);
        stream.stages[0].train.x.write(4, &mut first);
        stream.stages[1].train.x.write(4, &mut second);
        assert_ne!(first, second);
        assert_eq!(sorted(&stream.stages[0].train, 4), sorted(&stream.stages[1].train, 4));
        assert!(first.iter().all(|v| (0.0..=1.0).contains(v)));
        // Train and test of a task go through the same permutation: a bright column stays one set of places.
        let lit = |task: &Task, row: usize| -> Vec<usize> {
            let mut cells = vec![0.0; 25];
            task.x.write(row, &mut cells);
            (0..25).filter(|&j| cells[j] > 0.55).collect()
        };
        let stage = &stream.stages[7];
        assert_eq!(lit(&stage.train, 13), lit(&stage.test, 3));
        assert_eq!(lit(&stage.train, 13).len(), 5);
    }

    #[test]
    fn split_tasks_have_two_classes_and_all_outputs() {
        let stream = Stream::new(&images(100, 50), Benchmark::Split, 0, 2);
        let pairs: Vec<&[usize]> = stream.stages.iter().map(|s| s.classes.as_slice()).collect();
        assert_eq!(pairs, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]);
        for stage in &stream.stages {
            let Targets::Classes { codes, count } = &*stage.train.y else { panic!("classes") };
            assert_eq!((*count, codes.len(), stage.train.x.rows()), (10, 10, 10));
            assert!(codes.iter().all(|c| stage.classes.contains(&(*c as usize))));
        }
    }

    #[test]
    fn the_seed_alone_decides_the_tasks() {
        let images = images(20, 20);
        let shown = |seed| {
            let stream = Stream::new(&images, Benchmark::Rotated, seed, 1);
            let mut cells = vec![0.0; 25];
            stream.stages[5].test.x.write(2, &mut cells);
            cells
        };
        assert_eq!(shown(1), shown(1));
        assert_ne!(shown(1), shown(2));
    }
}
