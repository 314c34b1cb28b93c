//! Who runs: the methods of the published table with its arguments, and PMF-CL.

use pmfcl::{Problem, Settings};
use pmfcl_baselines::{
    Agem, AgemArguments, Der, DerArguments, Er, ErArguments, Ewc, EwcArguments, Joint, Last,
    Method, Network, Sgd, Si, SiArguments, Steps,
};

use super::published::{AGEM_MINIBATCH, Arguments, BUFFERS, HIDDEN, arguments};
use super::{Benchmark, Entry, Error, Exact, Stream, follow};

/// Fourth roots of pixels, less about their mean: random directions over whole images look at what differs from it, and the grey of an
/// edge says more than its brightness. Chosen among the powers 1, 1/2 and 1/4 by one test image in four, with 1,000 and 4,000 features
/// of permutations.
fn rooted(pixel: f32) -> f32 {
    pixel.max(0.0).sqrt().sqrt() - 0.17
}

fn as_they_are(pixel: f32) -> f32 {
    pixel
}

/// Where random maps come from, whatever the seed of the stream: they are part of the method.
const SEED: u64 = 7;

/// Fitting a bound takes iterations over the rows, so it sees one image in this many.
const LOGISTIC_THIN: usize = 20;
const LOGISTIC: &str = "PMF-CL linear, logistic, 1 image in 20";

/// The network of the protocol, from the seed of the stream.
fn network(stream: &Stream) -> Network {
    let widths: Vec<usize> =
        [stream.width].into_iter().chain(HIDDEN).chain([stream.outputs]).collect();
    Network::new(&widths, stream.seed)
}

/// One epoch of steps of this rate.
fn steps(stream: &Stream, rate: f64) -> Steps {
    let batch = arguments(stream.benchmark).batch;
    Steps { rate, batch, epochs: 1, seed: stream.seed }
}

fn method(
    key: &str,
    label: &str,
    every_task: bool,
    build: impl FnOnce(&Stream) -> Box<dyn Method> + Send + 'static,
) -> Entry {
    Entry::new(key, label, move |stream, note| follow(stream, &mut build(stream), every_task, note))
}

/// PMF-CL by this problem and these settings.
fn exact(key: &str, label: &str, model: (Problem, Settings)) -> Entry {
    let name = label.to_owned();
    Entry::new(key, label, move |stream, note| {
        follow(stream, &mut Exact::new(&name, stream.outputs, model)?, true, note)
    })
}

/// PMF-CL on random features that never saw data, through the settings every user has, on all images or on one in `thin`.
fn wide(basis: &str, pixel: fn(f32) -> f32, thin: usize) -> Entry {
    let (part, end) = match thin {
        1 => (String::new(), String::new()),
        _ => (format!(", 1 image in {thin}"), format!("-of-{thin}")),
    };
    let label = format!("PMF-CL {basis}, gaussian{part}");
    let (name, basis) = (label.clone(), basis.to_owned());
    Entry::new(&format!("{}{end}", basis.replace(':', "-")), &label, move |stream, note| {
        let model = Exact::wide(&format!("{basis},scale=none,seed={SEED}"))?;
        // Solving costs more than a task, so it is done once: the order of tasks does not matter.
        let mut student = Exact::new(&name, stream.outputs, model)?.on(pixel).solved_at_the_end();
        if thin > 1 {
            follow(&stream.thinner(thin), &mut student, false, note)
        } else {
            follow(stream, &mut student, false, note)
        }
    })
    .alone()
}

/// Wide maps of a protocol, by growing width. A permutation leaves nothing of a neighbourhood, so it gets no patches.
fn wides(benchmark: Benchmark) -> Vec<Entry> {
    let relu = |width: usize, thin: usize| wide(&format!("relu:{width}"), rooted, thin);
    let patches = |width: usize, thin: usize| wide(&format!("patches:{width}"), as_they_are, thin);
    match benchmark {
        Benchmark::Permuted => {
            vec![
                relu(2000, 1),
                relu(5000, 1),
                relu(10_000, 3),
                relu(10_000, 1),
                relu(12_000, 1),
                relu(15_000, 1),
            ]
        }
        Benchmark::Rotated => {
            vec![relu(2000, 1), patches(2000, 1), patches(4800, 3), patches(4800, 1)]
        }
        Benchmark::Split | Benchmark::Fashion => {
            vec![relu(2000, 1), relu(5000, 1), patches(2000, 1), patches(4800, 1), patches(7200, 1)]
        }
    }
}

/// Everyone there is for a protocol, in the order of the table.
pub fn entries(benchmark: Benchmark) -> Vec<Entry> {
    let of = arguments(benchmark);
    let mut all = vec![
        exact("squared", "PMF-CL linear, squared", Exact::squared()),
        exact("gaussian", "PMF-CL linear, gaussian", Exact::gaussian()),
        Entry::new("logistic", LOGISTIC, |stream, note| {
            let mut student = Exact::new(LOGISTIC, stream.outputs, Exact::logistic())?;
            follow(&stream.thinner(LOGISTIC_THIN), &mut student, false, note)
        }),
        // Testing on the way would train it twenty times.
        method("joint", "Joint", false, move |s| {
            Box::new(Joint::new(network(s), steps(s, of.sgd)))
        }),
        method("sgd", "SGD", true, move |s| Box::new(Sgd::new(network(s), steps(s, of.sgd)))),
        method("last", "last task alone", true, move |s| {
            Box::new(Last::new(network(s), steps(s, of.sgd)))
        }),
        method("oewc", "oEWC", true, move |s| {
            let [rate, _, gamma] = of.ewc;
            let arguments = EwcArguments { lambda: of.ewc_lambda, gamma };
            Box::new(Ewc::new(network(s), steps(s, rate), arguments))
        }),
        method("si", "SI", true, move |s| {
            let [rate, c, xi] = of.si;
            Box::new(Si::new(network(s), steps(s, rate), SiArguments { c, xi }))
        }),
    ];
    for (i, buffer) in BUFFERS.into_iter().enumerate() {
        all.extend(with_buffer(&of, i, buffer));
    }
    all.splice(3..3, wides(benchmark));
    all
}

/// The methods that hold examples, with the `i`-th buffer of the table.
fn with_buffer(of: &Arguments, i: usize, buffer: usize) -> [Entry; 4] {
    let key = |name: &str| format!("{name}-{buffer}");
    let label = |name: &str| format!("{name} {buffer}");
    let (agem_rate, er_rate, er_minibatch) = (of.agem[i], of.er[i], of.er_minibatch);
    let (der, derpp) = (of.der[i], of.derpp[i]);
    [
        method(&key("agem"), &label("A-GEM"), true, move |s| {
            let arguments = AgemArguments { buffer, minibatch: AGEM_MINIBATCH };
            Box::new(Agem::new(network(s), steps(s, agem_rate), arguments))
        }),
        method(&key("er"), &label("ER"), true, move |s| {
            let arguments = ErArguments { buffer, minibatch: er_minibatch };
            Box::new(Er::new(network(s), steps(s, er_rate), arguments))
        }),
        method(&key("der"), &label("DER"), true, move |s| {
            let (rate, alpha, minibatch) = der;
            let arguments = DerArguments { buffer, minibatch, alpha, beta: None };
            Box::new(Der::new(network(s), steps(s, rate), arguments))
        }),
        method(&key("der++"), &label("DER++"), true, move |s| {
            let (rate, alpha, beta, minibatch) = derpp;
            let arguments = DerArguments { buffer, minibatch, alpha, beta: Some(beta) };
            Box::new(Der::new(network(s), steps(s, rate), arguments))
        }),
    ]
}

/// Those of the entries whose names are listed; all where nothing is.
///
/// # Errors
/// When a name means nobody.
pub fn wanted(entries: Vec<Entry>, names: &[String]) -> Result<Vec<Entry>, Error> {
    if let Some(name) = names.iter().find(|name| !entries.iter().any(|e| e.is(name))) {
        let known: Vec<&str> = entries.iter().map(|e| e.key.as_str()).collect();
        return Err(Error::Unknown { name: name.clone(), known: known.join(", ") });
    }
    let chosen = |entry: &Entry| names.is_empty() || names.iter().any(|name| entry.is(name));
    Ok(entries.into_iter().filter(chosen).collect())
}
