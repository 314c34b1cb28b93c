//! What the program prints, word for word: every `--help`, the tables of `show`, `score` and `verify`, and the commonest
//! errors. A change of one of these is seen in review.
//!
//! Numbers are rounded to three digits, so that the last digits of another machine do not matter.

use insta::assert_snapshot;

use crate::program::{Place, Run, Table};
use crate::refusals::{made, table, with};

/// What the help says of data files where the feature `remote` is built.
const ADDRESSES: &str = ".

          Addresses are files too: s3://…, gs://…, az://…, https://…";

/// The help of a command.
fn help(command: &str) -> String {
    let place = Place::new();
    let mut run = place.command(&format!("{command} --help"));
    // The width of the terminal would wrap the lines otherwise.
    let run = Run::from(run.env("COLUMNS", "100").output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    // The one paragraph that depends on how the program was built.
    let text = without_trailing_space(&run.stdout);
    let (before, after) = text.split_once(ADDRESSES).unwrap_or((&text, ""));
    format!("{before}{after}")
}

/// What a successful command prints.
fn printed(place: &Place, words: &str) -> String {
    without_trailing_space(&rounded(&place.ok(words), true))
}

/// The message of a command that fails; `arguments` follow those of `words` and may hold blanks.
fn error(place: &Place, words: &str, arguments: &[&str]) -> String {
    let mut command = place.command(words);
    let run = Run::from(command.args(arguments).env("COLUMNS", "100").output().unwrap());
    assert_ne!(run.code, Some(0), "pmfcl {words}");
    assert_eq!(run.stdout, "", "pmfcl {words}");
    let directory = place.path("").display().to_string();
    let text = run.stderr.replace(directory.trim_end_matches('/'), "DIRECTORY");
    format!("exit code {}\n{}", run.code.unwrap(), without_trailing_space(&rounded(&text, false)))
}

fn without_trailing_space(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The text with every number of more than three digits and a decimal point rounded to three, and numbers that are zero up to
/// rounding as `~0`; in a table right-aligned in its place.
fn rounded(text: &str, table: bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-');
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let end = from.find(|c: char| !in_number(c)).unwrap_or(from.len());
        let token = from[..end].trim_end_matches(['.', '-', 'e']);
        let inside_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let digits = token.split('e').next().unwrap().chars().filter(char::is_ascii_digit).count();
        match token.parse::<f64>() {
            Ok(value) if !inside_word && token.contains('.') && digits > 3 => {
                let short = if value < 1e-9 {
                    "~0".to_owned()
                } else {
                    format!("{value:.2e}").parse::<f64>().unwrap().to_string()
                };
                // The sign stays with its number.
                let sign =
                    if table && out.ends_with('-') { out.pop().map(String::from) } else { None };
                let short = sign.unwrap_or_default() + &short;
                let width =
                    if table { token.len() + usize::from(short.starts_with('-')) } else { 0 };
                out.push_str(&format!("{short:>width$}"));
            }
            _ => out.push_str(token),
        }
        rest = &from[token.len()..];
    }
    out.push_str(rest);
    out
}

#[test]
fn numbers_are_rounded_in_their_place() {
    assert_eq!(rounded("a 1.23456 b", true), "a    1.23 b");
    assert_eq!(
        rounded("1.23456e-17 | 0.25 | 12345 | v1.23456 | 1.2.3", true),
        "         ~0 | 0.25 | 12345 | v1.23456 | 1.2.3"
    );
    assert_eq!(rounded("a -1.23456", true), "a    -1.23");
    assert_eq!(rounded("is -0.85234: it", false), "is -0.852: it");
    assert_eq!(rounded("row 12.\n", true), "row 12.\n");
}

#[test]
fn help_of_the_program() {
    assert_snapshot!(help(""), @r"
    Continual learning that equals joint training: learn files one after the other, keep summaries
    instead of rows

    Usage: pmfcl [OPTIONS] <COMMAND>

    Commands:
      learn        Learn data files, each as a task. Creates MODEL if there is none
      schema       Show what each column of a table is taken for, and write it to a file that `learn
                   --schema` takes
      check        Check data against a model before learning it: drift, moved columns, units, outlying
                   rows, new categories, repeated rows
      predict      Predict the rows of data files: one row out for each row in, in their order
      score        Score a model on data files: mse and r2, or accuracy, log-loss and calibration
      calibrate    Measure how sure a gaussian classifier may be, at the present model and on rows given
                   now. Predicted classes do not change
      summarize    Summarize data files on any machine: a shard, which `pmfcl learn --summaries` merges
                   with others and learns
      show         Show a model: settings, size, tasks with loss, forgetting and bound
      report       Write one HTML page that shows what was learned, forgotten and traded off
      front        Draw the Pareto front of two tasks, or of two groups of tasks
      prefer       Change the weights of the tasks, without their data
      set          Change a setting of a model, without its data
      unlearn      Remove a task, or rows of it, exactly: as if they had never been learned
      merge        Merge models that were made with the same settings into a new one
      export       Export a model as ONNX, safetensors or JSON
      verify       Check every byte and invariant of a model file. Exit code 0 means that no error was
                   found
      demo         Learn two years of bike rentals quarter by quarter, and see what is not forgotten
      completions  Print a completion script for a shell
      man          Print the manual page, or write one for every command
      help         Print this message or the help of the given subcommand(s)

    Options:
          --json     Print one JSON document on stdout instead of tables
      -q, --quiet    Print errors only
      -v, --verbose  Print more about what is done
      -h, --help     Print help
      -V, --version  Print version

    Start with:
      pmfcl learn sales.pmf 2024-*.csv --target revenue
      pmfcl show sales.pmf
      pmfcl report sales.pmf -o report.html

    Exit codes: 0 success, 1 an error in the data or the model, 2 wrong usage.
    ");
}

#[test]
fn help_of_learn() {
    assert_snapshot!(help("learn"), @r#"
    Learn data files, each as a task. Creates MODEL if there is none

    Usage: pmfcl learn [OPTIONS] <DATA|--summaries <FILES>...> <MODEL>

    Arguments:
      <MODEL>
              The model file

      [DATA]...
              Data files: .csv .tsv (.gz .zst), .parquet, .arrow, .feather, .npy, .npz, …-ubyte, `-` for
              CSV on stdin. A quoted pattern is one task made of all files that match

    Options:
          --json
              Print one JSON document on stdout instead of tables

          --target <COL>
              Column to predict; several with commas

          --name <NAME>
              Name of the task; all files are then one task. By default the file's name

      -q, --quiet
              Print errors only

          --task-column <COL>
              Column that names the task of every row; tasks in order of appearance

      -v, --verbose
              Print more about what is done

          --exclude <COLS>
              Columns that are not features

          --features <COLS>
              The columns that are features; by default all others

          --dates <COLS>
              Columns of dates, to be used as days since 1970; COL:FORMAT for others than 2024-01-31,
              such as day:%d.%m.%Y

          --as-category <COLS>
              Columns of numbers, or of texts such as 1,5, to be used as categories

          --schema <FILE>
              What each column is, from a file that `pmfcl schema -o FILE` writes and you correct

          --new-columns <COLS>
              Columns the model does not have yet, to be added: 0 in all rows learned before, or
              COL=VALUE (days since 1970 for a date, a category for a text)

          --summaries <FILES>...
              Shards of task summaries that `pmfcl summarize` made, instead of data files; parts of one
              task are merged

          --weight <W>
              Weight of the task relative to others

              [default: 1]

          --dry-run
              Read and check everything, print what would be learned, and change nothing

          --refuse-if <CONDITIONS>
              Learn nothing if one of these holds: repeat, units, drift[<P], shift[>SD],
              outliers[>SHARE], categories[>SHARE], missing[>SHARE], rows[<SHARE], any; see `pmfcl
              check`

      -h, --help
              Print help (see a summary with '-h')

    At creation:
          --loss <LOSS>
              squared, huber[:DELTA] or poisson[:CAP] for numbers; gaussian (LDA), logistic (softmax for
              several classes) or squared for classes. By default gaussian for text targets, squared for
              numbers

          --basis <SPEC>
              auto learns several bases and chooses from the summaries; linear, poly:2, spline:8,
              rbf:200, rff:1024, relu:2000, ntk:256; patches:2000 for images; log and power:0.5 for
              columns of any size, exp for small ones. Options follow after commas: rff:1024,seed=7

          --ridge <X|auto>
              (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries, 0 is
              minimum norm

          --standardize
              Multiply the ridge by each feature's variance

          --no-intercept
              No intercept

          --memory <KIND>
              ledger: one summary per task; compact: one summary of constant size

          --accumulator <WAY>
              qr: accurate; gram: up to three times faster, loses twice the digits; mixed: single
              precision, for thousands of random features; auto (the default): qr up to 512 columns,
              gram beyond

          --store <PRECISION>
              f64, or f32 for half the bytes of every task's summary in the file: its numbers are then
              off by 6e-8 of themselves. For squared and gaussian loss

          --prefer <WAY>
              samples, equal, or decay:G (each task counts G times as much as the next)

          --curvature <KIND>
              Curvature of logistic bounds: bohning, sharp, hessian, blend, diagonal

          --scheme <WAY>
              Where logistic bounds are made: one-shot or sequential

          --covariance <KIND>
              Covariance of gaussian: tied (one for all classes), or class (one for each, drawn toward
              the shared one; K times the memory)

          --calibrate <on|off>
              Probabilities of gaussian: on (measured on the rows of every task), off (temperature 1),
              or a temperature

          --coding <KIND>
              What coefficients of categories are relative to: onehot (nothing), reference (the first
              category of the column) or sum (the mean of its categories). Predictions are the same

          --classes <A,B,…>
              All classes there will be; needed for logistic where the files of the first command lack
              some

    Reading:
          --missing <WAY>
              Missing and non-finite values of features; by default as the model was made, and error for
              a new one

              Possible values:
              - error:     Stop and name the cell
              - drop:      Leave the row out; its prediction is empty
              - mean:      Take the mean of the column over all rows learned; of a category its share
              - indicator: Give the gaps of a column a coefficient of their own

          --delimiter <CHAR>
              Between the fields of CSV; by default what the first line has (`,` `;` tab `|`)

          --quote <CHAR>
              The quote character of CSV

              [default: "]

          --no-header
              The first line of CSV is data; columns are x1, x2, …

          --decimal <MARK>
              The decimal mark of numbers in text: a point or a comma

              [default: .]

          --thousands <MARK>
              What separates groups of three digits in text, such as , . ' or a space

          --na <WORDS>
              Words that stand for a missing value, with commas, in addition to NA, N/A, NaN, null and
              none

          --threads <N>
              Threads to use; results do not depend on it

    Examples:
      pmfcl learn sales.pmf 2024-*.parquet --target revenue
      pmfcl learn sales.pmf 2025-01.csv.gz
      pmfcl learn iris.pmf flowers.csv --target species --task-column site
      pmfcl learn q.pmf 'north/*.csv' 'south/*.csv' --target y --basis spline:8   (two tasks)
      zcat big.csv.gz | pmfcl learn m.pmf - --name big --target y
      pmfcl learn sales.pmf --summaries 'parts/*.pms'
    "#);
}

#[test]
fn help_of_predict() {
    assert_snapshot!(help("predict"), @r#"
    Predict the rows of data files: one row out for each row in, in their order

    Usage: pmfcl predict [OPTIONS] <MODEL> <DATA>...

    Arguments:
      <MODEL>
              The model file

      <DATA>...
              Data files, or `-` for CSV on stdin

    Options:
          --json
              Print one JSON document on stdout instead of tables

      -o, --output <FILE>
              Write to this file instead of stdout: .csv (.gz, .zst), .parquet, .arrow, .feather or
              .jsonl

          --proba
              Print the probability of every class after the class

      -q, --quiet
              Print errors only

          --unknown-score
              Add the column `unknown`, between 0 and 1 (gaussian): the share of learned rows that were
              nearer to a class than this row is. Above 0.99 is one in a hundred of rows like those
              learned; a row above it may be of none of the classes

      -v, --verbose
              Print more about what is done

          --interval <LEVEL>
              Add intervals that cover a new observation with this probability, such as 0.95 (squared
              loss). They assume independent noise of equal variance, and that a sample weight counts
              copies of its row

          --id <COL>
              Copy this column of the data in front of the predictions

          --unknown <WAY>
              A category the model does not know: stop, or predict as if it were none of those it knows

              Possible values:
              - error: Stop and name the cell
              - zero:  0 in all inputs of the column

              [default: error]

      -h, --help
              Print help (see a summary with '-h')

    Reading:
          --missing <WAY>
              Missing and non-finite values of features; by default as the model was made, and error for
              a new one

              Possible values:
              - error:     Stop and name the cell
              - drop:      Leave the row out; its prediction is empty
              - mean:      Take the mean of the column over all rows learned; of a category its share
              - indicator: Give the gaps of a column a coefficient of their own

          --delimiter <CHAR>
              Between the fields of CSV; by default what the first line has (`,` `;` tab `|`)

          --quote <CHAR>
              The quote character of CSV

              [default: "]

          --no-header
              The first line of CSV is data; columns are x1, x2, …

          --decimal <MARK>
              The decimal mark of numbers in text: a point or a comma

              [default: .]

          --thousands <MARK>
              What separates groups of three digits in text, such as , . ' or a space

          --na <WORDS>
              Words that stand for a missing value, with commas, in addition to NA, N/A, NaN, null and
              none

          --threads <N>
              Threads to use; results do not depend on it

    Examples:
      pmfcl predict sales.pmf next-month.parquet -o predicted.parquet
      pmfcl predict sales.pmf next-month.csv --interval 0.95
      pmfcl predict iris.pmf new.csv --proba --unknown-score
    "#);
}

#[test]
fn help_of_score() {
    assert_snapshot!(help("score"), @r#"
    Score a model on data files: mse and r2, or accuracy, log-loss and calibration

    Usage: pmfcl score [OPTIONS] <MODEL> <DATA>...

    Arguments:
      <MODEL>
              The model file

      <DATA>...
              Data files

    Options:
          --json
              Print one JSON document on stdout instead of tables

          --target <COL>
              The target column; by default the model's

      -q, --quiet
              Print errors only

          --task-column <COL>
              Column that names the task of every row: scores for each, and overall

      -v, --verbose
              Print more about what is done

      -h, --help
              Print help (see a summary with '-h')

    Reading:
          --missing <WAY>
              Missing and non-finite values of features; by default as the model was made, and error for
              a new one

              Possible values:
              - error:     Stop and name the cell
              - drop:      Leave the row out; its prediction is empty
              - mean:      Take the mean of the column over all rows learned; of a category its share
              - indicator: Give the gaps of a column a coefficient of their own

          --delimiter <CHAR>
              Between the fields of CSV; by default what the first line has (`,` `;` tab `|`)

          --quote <CHAR>
              The quote character of CSV

              [default: "]

          --no-header
              The first line of CSV is data; columns are x1, x2, …

          --decimal <MARK>
              The decimal mark of numbers in text: a point or a comma

              [default: .]

          --thousands <MARK>
              What separates groups of three digits in text, such as , . ' or a space

          --na <WORDS>
              Words that stand for a missing value, with commas, in addition to NA, N/A, NaN, null and
              none

          --threads <N>
              Threads to use; results do not depend on it

    Examples:
      pmfcl score sales.pmf 2025-02.parquet
      pmfcl score sales.pmf all.csv --task-column month --json
    "#);
}

#[test]
fn help_of_show() {
    assert_snapshot!(help("show"), @r"
    Show a model: settings, size, tasks with loss, forgetting and bound

    Usage: pmfcl show [OPTIONS] <MODEL>

    Arguments:
      <MODEL>  The model file

    Options:
          --coef     Print the coefficients too
          --json     Print one JSON document on stdout instead of tables
      -q, --quiet    Print errors only
      -v, --verbose  Print more about what is done
      -h, --help     Print help

    Examples:
      pmfcl show sales.pmf
      pmfcl show sales.pmf --coef
      pmfcl show sales.pmf --json | jq '.tasks[] | {name, forgetting}'
    ");
}

#[test]
fn help_of_report() {
    assert_snapshot!(help("report"), @r"
    Write one HTML page that shows what was learned, forgotten and traded off

    Usage: pmfcl report [OPTIONS] <MODEL>

    Arguments:
      <MODEL>  The model file

    Options:
          --json           Print one JSON document on stdout instead of tables
      -o, --output <FILE>  The page to write [default: report.html]
      -q, --quiet          Print errors only
      -v, --verbose        Print more about what is done
      -h, --help           Print help

    Example:
      pmfcl report sales.pmf -o report.html
    ");
}

#[test]
fn help_of_front() {
    assert_snapshot!(help("front"), @r"
    Draw the Pareto front of two tasks, or of two groups of tasks

    Usage: pmfcl front [OPTIONS] <MODEL> <A> [B]

    Arguments:
      <MODEL>  The model file
      <A>      A task, or several with commas; or both groups at once, a colon between them
      [B]      The other task, or group

    Options:
          --json           Print one JSON document on stdout instead of tables
      -o, --output <FILE>  Write F.svg, F.png or F.csv
          --points <N>     How many points [default: 50]
      -q, --quiet          Print errors only
      -v, --verbose        Print more about what is done
      -h, --help           Print help

    Examples:
      pmfcl front sales.pmf january july -o front.svg
      pmfcl front sales.pmf january,february july,august -o front.csv
      pmfcl front sales.pmf january,february:july,august --json
    ");
}

#[test]
fn help_of_prefer() {
    assert_snapshot!(help("prefer"), @r"
    Change the weights of the tasks, without their data

    Usage: pmfcl prefer [OPTIONS] <MODEL> [TASK=WEIGHT]...

    Arguments:
      <MODEL>           The model file
      [TASK=WEIGHT]...  TASK=WEIGHT for each task that counts; weights sum to 1

    Options:
          --json                Print one JSON document on stdout instead of tables
          --samples             Every sample counts the same
          --equal               Every task counts the same
      -q, --quiet               Print errors only
          --decay <G>           Each task counts G times as much as the next one; G is above 0 and at
                                most 1
      -v, --verbose             Print more about what is done
          --budget <TASK=LOSS>  The most a task may forget, in the units of `pmfcl show`; several with
                                commas. The others keep their proportions. A budget that no weights can
                                keep is refused, and the error states the smallest one that can be kept
      -h, --help                Print help

    Examples:
      pmfcl prefer sales.pmf north=0.7 south=0.3
      pmfcl prefer sales.pmf --equal
      pmfcl prefer sales.pmf --decay 0.9             (each task counts 0.9 times as much as the next)
      pmfcl prefer sales.pmf --budget north=1500     (the forgetting of north, as `pmfcl show` prints
      it,
                                                      may be at most 1500)
    ");
}

#[test]
fn help_of_set() {
    assert_snapshot!(help("set"), @r"
    Change a setting of a model, without its data

    Usage: pmfcl set [OPTIONS] <MODEL>

    Arguments:
      <MODEL>  The model file

    Options:
          --json            Print one JSON document on stdout instead of tables
          --ridge <X|auto>  (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the
                            summaries, 0 is minimum norm
          --coding <KIND>   What coefficients of categories are relative to: onehot (nothing), reference
                            (the first category of the column) or sum (the mean of its categories).
                            Predictions stay as they are
      -q, --quiet           Print errors only
          --basis <chosen>  Keep the candidate of `auto` that was chosen and drop the others for good
                            [possible values: chosen]
      -v, --verbose         Print more about what is done
      -h, --help            Print help

    Examples:
      pmfcl set sales.pmf --ridge 0.1
      pmfcl set sales.pmf --ridge auto
      pmfcl set sales.pmf --coding reference
      pmfcl set sales.pmf --basis chosen   (of --basis auto: drop the other candidates)
    ");
}

#[test]
fn help_of_unlearn() {
    assert_snapshot!(help("unlearn"), @r#"
    Remove a task, or rows of it, exactly: as if they had never been learned

    Usage: pmfcl unlearn [OPTIONS] <MODEL> <TASK>

    Arguments:
      <MODEL>
              The model file

      <TASK>
              The task to remove

    Options:
          --data <FILE>
              Remove these rows of the task only. Compact memory, which has merged its tasks, needs all
              rows of the task

          --json
              Print one JSON document on stdout instead of tables

          --exclude <COLS>
              Columns of the data that are not features

      -q, --quiet
              Print errors only

          --receipt <FILE>
              Write a statement of what was removed to this .json file; `pmfcl verify MODEL --receipt
              FILE` checks it

      -v, --verbose
              Print more about what is done

          --sign-key <FILE>
              The ed25519 key to sign the receipt with, PKCS#8 PEM as `openssl genpkey -algorithm
              ed25519` writes it. By default pmfcl/sign-key.pem in the user's configuration, which is
              made when first needed

          --audit-name
              Keep the name of the task in the audit table of the model

      -h, --help
              Print help (see a summary with '-h')

    Reading:
          --missing <WAY>
              Missing and non-finite values of features; by default as the model was made, and error for
              a new one

              Possible values:
              - error:     Stop and name the cell
              - drop:      Leave the row out; its prediction is empty
              - mean:      Take the mean of the column over all rows learned; of a category its share
              - indicator: Give the gaps of a column a coefficient of their own

          --delimiter <CHAR>
              Between the fields of CSV; by default what the first line has (`,` `;` tab `|`)

          --quote <CHAR>
              The quote character of CSV

              [default: "]

          --no-header
              The first line of CSV is data; columns are x1, x2, …

          --decimal <MARK>
              The decimal mark of numbers in text: a point or a comma

              [default: .]

          --thousands <MARK>
              What separates groups of three digits in text, such as , . ' or a space

          --na <WORDS>
              Words that stand for a missing value, with commas, in addition to NA, N/A, NaN, null and
              none

          --threads <N>
              Threads to use; results do not depend on it

    Examples:
      pmfcl unlearn sales.pmf 2024-03
      pmfcl unlearn visits.pmf 2024-03 --data patient-7.csv --receipt patient-7.json   (these rows of
      the task)
      pmfcl verify visits.pmf --receipt patient-7.json
      pmfcl unlearn compact.pmf 2024-03 --data 2024-03.csv   (compact memory needs all rows once more)
    "#);
}

#[test]
fn help_of_merge() {
    assert_snapshot!(help("merge"), @r"
    Merge models that were made with the same settings into a new one

    Usage: pmfcl merge [OPTIONS] <OUT> <MODELS>...

    Arguments:
      <OUT>        The new model file
      <MODELS>...  The models to merge

    Options:
          --json     Print one JSON document on stdout instead of tables
          --rename   Put the model's name before task names that occur twice
      -q, --quiet    Print errors only
      -v, --verbose  Print more about what is done
      -h, --help     Print help

    Examples:
      pmfcl merge all.pmf north.pmf south.pmf
      pmfcl merge all.pmf site-*.pmf --rename     (tasks of the same name become site-a/january, …)
    ");
}

#[test]
fn help_of_export() {
    assert_snapshot!(help("export"), @r"
    Export a model as ONNX, safetensors or JSON

    Usage: pmfcl export [OPTIONS] --output <FILE> <MODEL>

    Arguments:
      <MODEL>  The model file

    Options:
          --json           Print one JSON document on stdout instead of tables
      -o, --output <FILE>  F.onnx, F.safetensors or F.json
      -q, --quiet          Print errors only
      -v, --verbose        Print more about what is done
      -h, --help           Print help

    Examples:
      pmfcl export sales.pmf -o sales.onnx
      pmfcl export sales.pmf -o sales.safetensors
      pmfcl export sales.pmf -o sales.json
    ");
}

#[test]
fn help_of_verify() {
    assert_snapshot!(help("verify"), @r"
    Check every byte and invariant of a model file. Exit code 0 means that no error was found

    Usage: pmfcl verify [OPTIONS] <MODEL>

    Arguments:
      <MODEL>  The model file

    Options:
          --json                     Print one JSON document on stdout instead of tables
          --receipt <FILE>           Check a receipt of `pmfcl unlearn --receipt` against the file as
                                     well
      -q, --quiet                    Print errors only
          --signed-by <FINGERPRINT>  Refuse a receipt that another key signed than the one with this
                                     fingerprint, as `unlearn --receipt` prints it
      -v, --verbose                  Print more about what is done
      -h, --help                     Print help

    Example:
      pmfcl verify sales.pmf
    ");
}

#[test]
fn help_of_demo() {
    assert_snapshot!(help("demo"), @r"
    Learn two years of bike rentals quarter by quarter, and see what is not forgotten

    Usage: pmfcl demo [OPTIONS]

    Options:
          --json       Print one JSON document on stdout instead of tables
          --out <DIR>  Where to put data, model, report and pictures [default: pmfcl-demo]
      -q, --quiet      Print errors only
      -v, --verbose    Print more about what is done
      -h, --help       Print help

    Example:
      pmfcl demo --out demo
    ");
}

#[test]
fn help_of_completions() {
    assert_snapshot!(help("completions"), @r"
    Print a completion script for a shell

    Usage: pmfcl completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  bash, elvish, fish, powershell or zsh [possible values: bash, elvish, fish, powershell,
               zsh]

    Options:
          --json     Print one JSON document on stdout instead of tables
      -q, --quiet    Print errors only
      -v, --verbose  Print more about what is done
      -h, --help     Print help

    Example:
      pmfcl completions bash > /etc/bash_completion.d/pmfcl
    ");
}

#[test]
fn help_of_man() {
    assert_snapshot!(help("man"), @r"
    Print the manual page, or write one for every command

    Usage: pmfcl man [OPTIONS]

    Options:
          --dir <DIR>  Write all pages into this directory
          --json       Print one JSON document on stdout instead of tables
      -q, --quiet      Print errors only
      -v, --verbose    Print more about what is done
      -h, --help       Print help

    Examples:
      pmfcl man | man -l -
      pmfcl man --dir /usr/share/man/man1
    ");
}

/// A model of classes: `k` from `x`, `z` and `y`.
fn classes() -> Place {
    let place = made();
    place.ok("learn k.pmf a.csv b.csv --target k");
    place
}

#[test]
fn tables_of_show() {
    let place = classes();
    assert_snapshot!(printed(&place, "show m.pmf"), @r"
    m.pmf

      loss        squared
      targets     y
      features    4 (linear)
      ridge           0.01 (0.01)
      memory      ledger, 368 B
      accumulator qr (auto)
      preference  samples
      samples     80
      y           RMSE   0.0764, R²   0.989 on all rows learned

    Tasks (2)

      task  samples  weight      RMSE       R²       loss      best  forgetting
      ────  ───────  ──────  ────────  ───────  ─────────  ────────  ──────────
      a          40     0.5    0.0786    0.988    0.00309  0.000281     0.00281
      b          40     0.5    0.0741    0.989    0.00275  0.000356     0.00239

      RMSE is in units of the target; loss is half its square; best is the least
      loss of a model of the task's own; forgetting is loss − best
      p-values and intervals: a sample weight counts as that many copies of its
      row
    ");
    assert_snapshot!(printed(&place, "show m.pmf --coef"), @r"
    m.pmf

      loss        squared
      targets     y
      features    4 (linear)
      ridge           0.01 (0.01)
      memory      ledger, 368 B
      accumulator qr (auto)
      preference  samples
      samples     80
      y           RMSE   0.0764, R²   0.989 on all rows learned

    Tasks (2)

      task  samples  weight      RMSE       R²       loss      best  forgetting
      ────  ───────  ──────  ────────  ───────  ─────────  ────────  ──────────
      a          40     0.5    0.0786    0.988    0.00309  0.000281     0.00281
      b          40     0.5    0.0741    0.989    0.00275  0.000356     0.00239

      RMSE is in units of the target; loss is half its square; best is the least
      loss of a model of the task's own; forgetting is loss − best
      p-values and intervals: a sample weight counts as that many copies of its
      row

    Coefficients

      feature             y
      ───────────  ────────
      (intercept)     0.361
      x                1.77
      z              -0.905
      k=green        -0.255
      k=red           0.255

      coding onehot: a category has the coefficient of its 0/1 column; differences
      between categories mean something, their level does not (pmfcl set --coding
      reference or sum)
    ");
    assert_snapshot!(printed(&place, "show k.pmf"), @r"
    k.pmf

      loss        gaussian
      classes     green, red
      features    3 (linear)
      ridge       shrinkage 0.0000154
      memory      ledger, 400 B
      accumulator qr (auto)
      preference  samples
      samples     80
      calibration temperature      1, error 0.0000000116 (rows left out)

    Tasks (2)

      task  samples  rank  weight  accuracy  log-loss  forgetting     bound
      ────  ───────  ────  ──────  ────────  ────────  ──────────  ────────
      a          40     4     0.5         1  0.0000000116      0.0634    0.0634
      b          40     4     0.5         1  0.0000000116      0.0578    0.0578

      accuracy, log-loss: of a sample of the rows, each predicted by the model
      without it, when the task was measured
      p-values and intervals: a sample weight counts as that many copies of its
      row
    ");
}

#[test]
fn tables_of_score() {
    let place = classes();
    place.put("c.csv", table(3).csv());
    assert_snapshot!(printed(&place, "score m.pmf c.csv"), @r"
    Scores

      task     samples      RMSE        mse       R²
      ───────  ───────  ────────  ─────────  ───────
      c             40    0.0758    0.00574    0.989
      overall       40    0.0758    0.00574    0.989
    ");
    assert_snapshot!(printed(&place, "score m.pmf a.csv b.csv"), @r"
    Scores

      task     samples      RMSE        mse       R²
      ───────  ───────  ────────  ─────────  ───────
      a             40    0.0786    0.00618    0.988
      b             40    0.0741    0.00549    0.989
      overall       80    0.0764    0.00584    0.989
    ");
    assert_snapshot!(printed(&place, "score k.pmf c.csv"), @r"
    Scores

      task     samples  accuracy  log-loss      Brier  calibration error
      ───────  ───────  ────────  ────────  ─────────  ─────────────────
      c             40         1  0.0000000116         ~0           0.0000000116
      overall       40         1  0.0000000116         ~0           0.0000000116

    Reliability: calibrated where both columns agree

      confidence  accuracy  samples
      ──────────  ────────  ───────
            1            1       40
    ");
}

#[test]
fn table_of_verify() {
    assert_snapshot!(printed(&made(), "verify m.pmf"), @r"
    m.pmf: sound (2 tasks, 8192 B)
      ✓ header, version and tables
      ✓ pages and indexes
      ✓ checksum of the whole file
      ✓ checksums of settings, names and solution
      ✓ checksums and form of 2 summaries
      ✓ records agree with the summaries
      ✓ pool and solution follow from the memory
    ");
}

#[test]
fn errors_of_files() {
    let place = made();
    place.put("c.csv", table(3).csv());
    place.put("empty.csv", "");
    place.put("ragged.csv", format!("{}1,red\n", table(3).csv()));
    place.put("c.xls", "x");
    place.put("text.pmf", "x,y\n1,2\n".repeat(200));
    assert_snapshot!(error(&place, "learn m.pmf nowhere.csv", &[]), @r"
    exit code 1
    error: nowhere.csv: cannot be opened: No such file or directory (os error 2)
    ");
    assert_snapshot!(error(&place, "learn m.pmf c.xls", &[]), @r"
    exit code 1
    error: c.xls: unknown kind of file; the name must end in .csv or .tsv (also .gz, .zst), .parquet, .arrow, .feather, .npy, .npz or -ubyte
    ");
    assert_snapshot!(error(&place, "learn m.pmf empty.csv", &[]), @r"
    exit code 1
    error: empty.csv: is empty
    ");
    assert_snapshot!(error(&place, "learn m.pmf ragged.csv", &[]), @r"
    exit code 1
    error: ragged.csv, row 41 (line 42): has 2 fields where 4 are expected
    ");
    assert_snapshot!(error(&place, "learn n.pmf no-*.csv --target y", &[]), @r"
    exit code 1
    error: no-*.csv: no file matches this pattern
    ");
    assert_snapshot!(error(&place, "show nowhere.pmf", &[]), @r"
    exit code 1
    error: nowhere.pmf: there is no such model; `pmfcl learn` creates one
    ");
    assert_snapshot!(error(&place, "show text.pmf", &[]), @r"
    exit code 1
    error: text.pmf: this is not a pmfcl model (no SQLite database)
    ");
    assert_snapshot!(error(&place, "predict m.pmf c.csv -o no/such.csv", &[]), @r"
    exit code 1
    error: no/such.csv: cannot be written: there is no directory no; create it first
    ");
    assert_snapshot!(error(&place, "merge m.pmf m.pmf", &[]), @r"
    exit code 1
    error: m.pmf: there is a file of that name already; choose another name or remove it first
    ");
}

#[test]
fn errors_of_cells() {
    let place = made();
    place.put("gap.csv", with(6, "x", ""));
    place.put("word.csv", with(6, "x", "abc"));
    place.put("blue.csv", with(4, "k", "blue"));
    place.put("huge.csv", with(4, "z", "1e300"));
    assert_snapshot!(error(&place, "learn m.pmf gap.csv", &[]), @r"
    exit code 1
    error: gap.csv, row 7 (line 8), column 'x': the value is missing or not finite; leave such rows out with --missing drop, or learn them with --missing mean or indicator
    ");
    assert_snapshot!(error(&place, "learn m.pmf word.csv", &[]), @r"
    exit code 1
    error: word.csv, row 7 (line 8), column 'x': 'abc' is not a number (--na WORD reads a word as a missing value)
    ");
    assert_snapshot!(error(&place, "predict m.pmf blue.csv", &[]), @r"
    exit code 1
    error: blue.csv: row 5, column 'k': the model does not know the category 'blue'; correct it, learn rows that have it first, or predict with --unknown zero
    ");
    // The column of the table is named, not the column of the design.
    assert_snapshot!(error(&place, "learn n.pmf huge.csv --target y --accumulator gram", &[]), @r"
    exit code 1
    error: huge.csv: column 'z' overflows double precision when squared and summed: rescale it (the qr accumulator reaches further than gram)
    ");
    assert_snapshot!(error(&place, "learn n.pmf huge.csv --target y --basis exp", &[]), @r"
    exit code 1
    error: huge.csv, row 5: feature 'z' is 1e300, where `exp` overflows: rescale the column, or take a basis that grows more slowly, such as `log`
    ");
    assert_snapshot!(error(&place, "learn n.pmf huge.csv --target y --basis poly:2", &[]), @r"
    exit code 1
    error: huge.csv, row 5: feature 'z' is 1e300, where `poly:2` overflows: rescale the column, or take a basis that grows more slowly, such as `log`
    ");
    assert_snapshot!(error(&place, "learn n.pmf huge.csv --target z", &[]), @r"
    exit code 1
    error: huge.csv: column 'z' overflows double precision when squared and summed: rescale it (the qr accumulator reaches further than gram)
    ");
    assert_snapshot!(error(&place, "learn n.pmf a.csv --target y --loss poisson", &[]), @r"
    exit code 1
    error: a.csv, row 8: target 'y' is -0.852: it must be a count of 0 or more; correct or drop the row, or use another loss
    ");
}

/// The table with one more column, of a name that a shell would split.
fn with_column(values: impl Fn(usize) -> String) -> String {
    let mut table: Table = table(3);
    table.columns.push("Unnamed: 0".to_owned());
    table.rows.iter_mut().enumerate().for_each(|(i, row)| row.push(values(i)));
    table.csv()
}

#[test]
fn errors_of_columns() {
    let place = made();
    place.put("c.csv", table(3).csv());
    place.put("few.csv", table(3).without(&["z"]).csv());
    place.put("more.csv", with_column(|i| i.to_string()));
    place.put("dated.csv", with_column(|i| format!("2024-01-{:02}", i % 28 + 1)));
    place.put("comma.csv", with_column(|i| format!("\"{i},5\"")));
    assert_snapshot!(error(&place, "learn n.pmf c.csv", &[]), @r"
    exit code 1
    error: n.pmf: there is no such model yet; name the column it is to predict with --target COLUMN
    ");
    assert_snapshot!(error(&place, "learn n.pmf c.csv --target price", &[]), @r"
    exit code 1
    error: c.csv: there is no column 'price'; there are: x, k, z, y
    ");
    assert_snapshot!(error(&place, "learn m.pmf few.csv", &[]), @r"
    exit code 1
    error: few.csv: the model needs the column 'z', which the file does not have; there are: x, k, y
    ");
    assert_snapshot!(error(&place, "learn m.pmf more.csv", &[]), @r#"
    exit code 1
    error: more.csv: column 'Unnamed: 0' is new: the model was made without it; leave it out with --exclude "Unnamed: 0", or add it with --new-columns "Unnamed: 0" (0 in all rows learned before; COLUMN=VALUE states another value)
    "#);
    assert_snapshot!(error(&place, "learn n.pmf dated.csv --target y", &[]), @r#"
    exit code 1
    error: dated.csv: column 'Unnamed: 0' holds dates; use them as days since 1970 with --dates "Unnamed: 0", or leave them out with --exclude "Unnamed: 0"
    "#);
    assert_snapshot!(error(&place, "learn n.pmf comma.csv --target y", &[]), @r#"
    exit code 1
    error: comma.csv, row 1 (line 2), column 'Unnamed: 0': '0,5' is a number with a comma, so the column would be read as text; read it with --decimal , (`pmfcl learn --as-category "Unnamed: 0"` takes such texts as categories)
    "#);
    assert_snapshot!(error(&place, "learn n.pmf comma.csv --target", &["Unnamed: 0"]), @r#"
    exit code 1
    error: comma.csv, row 1 (line 2), column 'Unnamed: 0': '0,5' is a number with a comma, so the column would be read as text; read it with --decimal , (`pmfcl learn --as-category "Unnamed: 0"` takes such texts as categories)
    "#);
}

#[test]
fn errors_of_settings() {
    let place = made();
    place.put("c.csv", table(3).csv());
    assert_snapshot!(error(&place, "learn m.pmf a.csv", &[]), @r"
    exit code 1
    error: a task named `a` has been learned already: choose another name, or unlearn it first
    ");
    assert_snapshot!(error(&place, "learn m.pmf c.csv --ridge 0.5", &[]), @r"
    exit code 1
    error: m.pmf: the model was made with --ridge 0.01, not 0.5; leave --ridge out, or change it with `pmfcl set`
    ");
    assert_snapshot!(error(&place, "learn m.pmf c.csv --target", &["two words"]), @r#"
    exit code 1
    error: m.pmf: the model was made with --target y, not "two words"; leave --target out, or make another model
    "#);
    assert_snapshot!(error(&place, "predict m.pmf c.csv --proba", &[]), @r"
    exit code 1
    error: --proba is for classes; this model predicts numbers
    ");
    assert_snapshot!(error(&place, "unlearn m.pmf c", &[]), @r"
    exit code 1
    error: no task is named `c`; the memory holds `a`, `b`
    ");
    assert_snapshot!(error(&place, "prefer m.pmf a=0.5 b=0.2", &[]), @r"
    exit code 1
    error: preference: the weights sum to 0.7; divide them by that to sum to 1
    ");
    assert_snapshot!(error(&place, "prefer m.pmf", &[]), @r"
    exit code 1
    error: no weights are given: use TASK=WEIGHT …, --samples, --equal, --decay G, or --budget TASK=LOSS
    ");
    assert_snapshot!(error(&place, "prefer m.pmf --budget a=0,b=0", &[]), @r"
    exit code 1
    error: budget cannot be met: at best `a` loses 0.00281 of the 0 allowed, `b` loses 0.00239 of the 0 allowed; allow more, or set a smaller ridge
    ");
    assert_snapshot!(error(&place, "learn m.pmf c.csv --categories z", &[]), @r"
    exit code 2
    error: unexpected argument '--categories' found

      tip: a similar argument exists: '--as-category'

    Usage: pmfcl learn --as-category <COLS> <DATA|--summaries <FILES>...> <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(error(&place, "lern m.pmf c.csv", &[]), @r"
    exit code 2
    error: unrecognized subcommand 'lern'

      tip: a similar subcommand exists: 'learn'

    Usage: pmfcl [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}
