//! What the programs `pmfcl` and `pmfcl-lab` share: options for reading files, tables of text, progress, and files that are
//! written whole or not at all. Data goes to stdout, notes and progress to stderr.
//!
//! | module | what it is for |
//! | --- | --- |
//! | `terminal` | notes, progress, answers as text or JSON, numbers as people read them |
//! | `table` | tables of text |
//! | `reading` | which files an argument names, and how they are read |
//! | `output` | files that commands write |

#![warn(clippy::unwrap_used)]

mod output;
mod reading;
mod table;
mod terminal;

pub use output::{Draft, ending_in, ending_of, write};
pub use reading::{OnMissing, Reading, expand, note_index, task_name};
pub use table::Table;
pub use terminal::{
    Progress, Verbosity, answer, bold, bytes, closed_pipe, cut, detail, error_message, exit,
    grouped, maybe, note, print, print_text, set_verbosity, short, verbosity, wrapped,
};
