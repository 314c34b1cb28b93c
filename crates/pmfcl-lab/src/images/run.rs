//! Following a stream, and several who follow it side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pmfcl::report::continual::{Direction, Scores};
use pmfcl_baselines::{Kept, Method, Targets, Task};

use super::{Error, Stage, Stream};

/// Test images of every task that are looked at on the way: one in this many.
const GLANCE: usize = 10;

/// Someone who learns tasks one after the other and can fail.
pub trait Student {
    /// What to call it.
    fn name(&self) -> String;

    /// Learns one more task.
    ///
    /// # Errors
    /// When it cannot.
    fn learn(&mut self, task: &Task) -> Result<(), Error>;

    /// Scores of all classes for `rows` rows; the largest is the answer. Before the first task, those of an untrained
    /// model.
    ///
    /// # Errors
    /// When it cannot tell.
    fn scores(&self, x: &[f64], rows: usize) -> Result<Vec<f64>, Error>;

    /// What is held between tasks.
    fn kept(&self) -> Kept;
}

impl Student for Box<dyn Method> {
    fn name(&self) -> String {
        self.as_ref().name()
    }

    fn learn(&mut self, task: &Task) -> Result<(), Error> {
        self.as_mut().learn(task);
        Ok(())
    }

    fn scores(&self, x: &[f64], rows: usize) -> Result<Vec<f64>, Error> {
        Ok(self.outputs(x, rows))
    }

    fn kept(&self) -> Kept {
        self.as_ref().kept()
    }
}

/// What someone who followed a stream has reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Who.
    pub name: String,
    /// Accuracy on all test images of each task after the last.
    pub last: Vec<f64>,
    /// The same when only the classes of the task are asked for: task-incremental. Nothing where every task has all.
    pub within: Option<Vec<f64>>,
    /// Accuracy on every task after every task, `[after][on]`, on one test image in ten; nothing where only the end was
    /// looked at.
    pub way: Option<Scores>,
    /// Accuracy of the untrained model on the images of [`Run::way`].
    pub untrained: Vec<f64>,
    /// Seconds of learning, without the tests.
    pub seconds: f64,
    /// What was held between tasks, after the last.
    pub kept: Kept,
}

impl Run {
    /// The mean accuracy over tasks after the last: the number the field prints.
    pub fn accuracy(&self) -> f64 {
        mean(&self.last)
    }

    /// The mean task-incremental accuracy.
    pub fn within(&self) -> Option<f64> {
        self.within.as_deref().map(mean)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Right answers among all classes and among those of the task, as shares of one test image in `every`.
fn accuracy(
    student: &dyn Student,
    stage: &Stage,
    every: usize,
    task: usize,
) -> Result<(f64, f64), Error> {
    let Targets::Classes { codes, count } = &*stage.test.y else {
        return Err(Error::Shape { what: "a stream of images has classes".to_owned() });
    };
    let width = stage.test.x.width();
    let rows: Vec<usize> = (0..codes.len()).step_by(every).collect();
    let (mut right, mut within) = (0, 0);
    let mut x = Vec::new();
    for part in rows.chunks(500) {
        x.resize(part.len() * width, 0.0);
        for (out, &row) in x.chunks_exact_mut(width).zip(part) {
            stage.test.x.write(row, out);
        }
        let scores = student.scores(&x, part.len())?;
        // A class without rows may have a score of −∞; anything else must be a number.
        if scores.iter().any(|s| s.is_nan() || *s > f64::MAX) {
            return Err(Error::Diverged { name: student.name(), task });
        }
        for (scores, &row) in scores.chunks_exact(*count).zip(part) {
            let best = |among: &mut dyn Iterator<Item = usize>| {
                among.reduce(|a, b| if scores[b] > scores[a] { b } else { a })
            };
            let truth = Some(codes[row] as usize);
            right += usize::from(best(&mut (0..*count)) == truth);
            within += usize::from(best(&mut stage.classes.iter().copied()) == truth);
        }
    }
    let share = |hits: usize| hits as f64 / rows.len().max(1) as f64;
    Ok((share(right), share(within)))
}

/// Learns all tasks of a stream, tested after each where `every_task` is set, and on all test images after the last.
///
/// # Errors
/// When the student fails, or its scores are no numbers.
pub fn follow(
    stream: &Stream,
    student: &mut dyn Student,
    every_task: bool,
    note: &dyn Fn(&str),
) -> Result<Run, Error> {
    let glance = |student: &dyn Student, task| -> Result<Vec<f64>, Error> {
        stream.stages.iter().map(|s| Ok(accuracy(student, s, GLANCE, task)?.0)).collect()
    };
    let untrained = if every_task { glance(student, 0)? } else { Vec::new() };
    let mut table = Vec::new();
    let mut seconds = 0.0;
    let count = stream.stages.len();
    for (t, stage) in stream.stages.iter().enumerate() {
        let start = Instant::now();
        student.learn(&stage.train)?;
        seconds += start.elapsed().as_secs_f64();
        if every_task {
            table.push(glance(student, t + 1)?);
        }
        if (t + 1).is_multiple_of(5) && t + 1 < count {
            note(&format!("{}: {} of {count} tasks, {seconds:.0} s", student.name(), t + 1));
        }
    }
    // Those who put off training until they are asked train now.
    let start = Instant::now();
    student.scores(&vec![0.0; stream.width], 1)?;
    seconds += start.elapsed().as_secs_f64();
    let last: Vec<(f64, f64)> =
        stream.stages.iter().map(|s| accuracy(student, s, 1, count)).collect::<Result<_, _>>()?;
    let way = every_task.then(|| Scores::new(table, Direction::HigherIsBetter)).transpose()?;
    Ok(Run {
        name: student.name(),
        within: stream.benchmark.splits().then(|| last.iter().map(|a| a.1).collect()),
        last: last.into_iter().map(|a| a.0).collect(),
        way,
        untrained,
        seconds,
        kept: student.kept(),
    })
}

/// Follows a stream and tells how it went.
type Follow = dyn FnOnce(&Stream, &dyn Fn(&str)) -> Result<Run, Error> + Send;

/// Someone who is going to run.
pub struct Entry {
    /// A short name to choose it by, `er-200`; what stands before the first dash chooses its siblings too.
    pub key: String,
    /// What to call it in a table.
    pub label: String,
    /// Whether it uses all threads itself, and so runs by itself.
    alone: bool,
    follow: Box<Follow>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.key)
    }
}

impl Entry {
    /// An entry that runs by this function.
    pub fn new(
        key: &str,
        label: &str,
        follow: impl FnOnce(&Stream, &dyn Fn(&str)) -> Result<Run, Error> + Send + 'static,
    ) -> Self {
        let (key, label) = (key.to_owned(), label.to_owned());
        Self { key, label, alone: false, follow: Box::new(follow) }
    }

    /// The same, running by itself with all threads.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    fn run(self, stream: &Stream, note: &dyn Fn(&str)) -> Finish {
        let run = (self.follow)(stream, note);
        note(&match &run {
            Ok(run) => {
                let percent = 100.0 * run.accuracy();
                format!("{}: {percent:.2} % after {:.0} s", self.label, run.seconds)
            }
            Err(error) => format!("{}: {error}", self.label),
        });
        Finish { key: self.key, label: self.label, run }
    }

    /// Whether this name means it.
    pub fn is(&self, name: &str) -> bool {
        self.key == name || self.key.split('-').next() == Some(name)
    }
}

/// How an entry ended.
#[derive(Debug)]
pub struct Finish {
    /// Its short name.
    pub key: String,
    /// What to call it in a table.
    pub label: String,
    /// What it reached, or why it did not.
    pub run: Result<Run, Error>,
}

/// Lets entries run, one on each thread at a time, then those that need all threads; they come back in the order they were
/// given.
pub fn run_all(
    stream: &Stream,
    entries: Vec<Entry>,
    threads: usize,
    note: &(dyn Fn(&str) + Sync),
) -> Vec<Finish> {
    let done: Vec<Mutex<Option<Finish>>> = entries.iter().map(|_| Mutex::new(None)).collect();
    let (alone, together): (Vec<_>, Vec<_>) =
        entries.into_iter().enumerate().partition(|(_, entry)| entry.alone);
    let waiting: Vec<Mutex<Option<(usize, Entry)>>> =
        together.into_iter().map(|e| Mutex::new(Some(e))).collect();
    let put = |at: usize, finish: Finish| {
        if let Ok(mut place) = done[at].lock() {
            *place = Some(finish);
        }
    };
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(slot) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some((at, entry)) = slot.lock().ok().and_then(|mut e| e.take()) else { continue };
            put(at, entry.run(stream, note));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, waiting.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    for (at, entry) in alone {
        put(at, entry.run(stream, note));
    }
    done.into_iter().filter_map(|f| f.into_inner().ok().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::images;
    use super::super::{Benchmark, Exact, entries, tables, wanted};
    use super::*;

    fn stream(benchmark: Benchmark) -> Stream {
        Stream::new(&images(400, 200), benchmark, 1, 1)
    }

    fn finishes(stream: &Stream, names: &[&str], threads: usize) -> Vec<Finish> {
        let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        let all = wanted(entries(stream.benchmark), &names).unwrap();
        run_all(stream, all, threads, &|_| ())
    }

    #[test]
    fn results_do_not_depend_on_threads_and_come_in_order() {
        let stream = stream(Benchmark::Split);
        let names = ["sgd", "er", "si", "squared"];
        let runs = |threads| -> Vec<(String, Vec<f64>, Option<Scores>)> {
            let all = finishes(&stream, &names, threads).into_iter();
            all.map(|f| f.run.map(|r| (f.key, r.last, r.way)).unwrap()).collect()
        };
        let (one, many) = (runs(1), runs(4));
        assert_eq!(one, many);
        let keys: Vec<&str> = one.iter().map(|r| r.0.as_str()).collect();
        assert_eq!(keys, ["squared", "sgd", "si", "er-200", "er-500", "er-5120"]);
    }

    #[test]
    fn splitting_classes_is_no_trouble_for_exact_learning_and_all_of_it_for_sgd() {
        // Enough steps a task to forget the one before.
        let stream = Stream::new(&images(8000, 200), Benchmark::Split, 1, 1);
        let all = finishes(&stream, &["squared", "sgd"], 1);
        let (exact, sgd) = (all[0].run.as_ref().unwrap(), all[1].run.as_ref().unwrap());
        assert!(exact.accuracy() > 0.95, "{}", exact.accuracy());
        assert!(sgd.accuracy() < 0.5, "{}", sgd.accuracy());
        // Knowing the task leaves two classes to choose from.
        assert!(sgd.within().unwrap() > sgd.accuracy());
        assert!(sgd.way.as_ref().unwrap().chaudhry_forgetting() > 0.3);
        assert_eq!((exact.kept.examples, sgd.kept), (0, Kept::default()));
    }

    #[test]
    fn the_order_of_tasks_is_nothing_to_exact_learning() {
        let stream = stream(Benchmark::Split);
        let last = |stages: Vec<Stage>| {
            let mut stream = stream.clone();
            stream.stages = stages;
            let mut exact = Exact::new("exact", 10, Exact::squared()).unwrap();
            follow(&stream, &mut exact, false, &|_| ()).unwrap().last
        };
        let forward = last(stream.stages.clone());
        let mut backward = last(stream.stages.iter().rev().cloned().collect());
        backward.reverse();
        assert_eq!(forward, backward);
    }

    #[test]
    fn a_method_that_diverges_is_named_and_does_not_stop_the_others() {
        struct Lost;
        impl Student for Lost {
            fn name(&self) -> String {
                "lost".into()
            }
            fn learn(&mut self, _: &Task) -> Result<(), Error> {
                Ok(())
            }
            fn scores(&self, _: &[f64], rows: usize) -> Result<Vec<f64>, Error> {
                Ok(vec![f64::NAN; rows * 10])
            }
            fn kept(&self) -> Kept {
                Kept::default()
            }
        }
        let stream = stream(Benchmark::Split);
        let lost = Entry::new("lost", "lost", |s, note| follow(s, &mut Lost, false, note));
        let mut all = wanted(entries(Benchmark::Split), &["sgd".to_owned()]).unwrap();
        all.insert(0, lost);
        let finishes = run_all(&stream, all, 2, &|_| ());
        assert!(matches!(finishes[0].run, Err(Error::Diverged { task: 5, .. })));
        let text = tables(&stream, &finishes, &[]).unwrap()[0].text();
        assert!(text.contains("lost diverged") && text.contains("SGD"), "{text}");
    }

    #[test]
    fn unknown_methods_are_refused_with_those_there_are() {
        let said = wanted(entries(Benchmark::Permuted), &["ner".to_owned()]).unwrap_err();
        assert!(said.to_string().contains("er-200"), "{said}");
    }
}
