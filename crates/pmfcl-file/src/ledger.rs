//! The privacy ledger of a client: what it has given away over all its releases, on disk, so that a restart forgets nothing.
//!
//! It lives in the model file of whoever owns the rows, where there is one, and else in a database of its own. A release is
//! written and synced before its noise is drawn, in a transaction that first adds up what is there: two processes cannot both spend
//! the last of it. The model in the file may be learned, unlearned, replaced and written anew by others meanwhile.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmfcl::private::{Account, Budget};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::create::private_file;
use crate::error::FileError;
use crate::layout::{self, Layout};
use crate::read::check_layout;
use crate::releases::{ReleaseRow, ReleaseRows, create, drop_digest};
use crate::store::{Result, check_file, connect, write_digest};

/// `PMFL`, in the header of a database that is a ledger and nothing else.
const APPLICATION: i64 = 0x504D_464C;
const VERSION: i64 = 2;

/// How long a release waits for others that write: a commit takes milliseconds, a process that learns may take hours.
const PATIENCE: Duration = Duration::from_secs(2);

/// A ledger, open.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    connection: Connection,
    total: Budget,
    home: Home,
    /// Whether releases since have left a model file without a digest.
    undigested: bool,
}

/// What a ledger is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Model,
    /// Of layout 1, which has no room for it.
    EarlierModel,
    Alone,
}

/// One release in a ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Seconds since 1970.
    pub time: u64,
    /// What was released: client and step, for instance.
    pub what: String,
    /// What it cost.
    pub budget: Budget,
}

impl Drop for Ledger {
    /// As of a [`Store`](crate::Store): once, when the file is closed.
    fn drop(&mut self) {
        // Whoever has the file now makes one when it is done.
        if self.undigested
            && self.connection.busy_timeout(Duration::ZERO).is_ok()
            && self.connection.execute_batch("BEGIN IMMEDIATE").is_ok()
        {
            write_digest(&mut self.connection);
        }
    }
}

impl Ledger {
    /// Opens the ledger in a model file, or the one that is a file of its own, or begins one, with a total that holds for good. Where
    /// there is no file, one of its own is begun; a name that ends in `.pmf` is that of a model, which has to be there.
    ///
    /// # Errors
    /// When it was begun with another total, the file is neither model nor ledger, or it cannot be read or written.
    pub fn open(path: &Path, total: Budget) -> Result<Self> {
        Account::new(total)?;
        if path.extension().is_some_and(|end| end == "pmf") && !path.exists() {
            return Err(FileError::NotFound(path.to_path_buf()));
        }
        private_file(path).map_err(|e| FileError::Io(path.to_path_buf(), e.to_string()))?;
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(PATIENCE).map_err(|e| FileError::sqlite(path, "read", &e))?;
        let (home, begun) = begin(path, &mut connection, total)?;
        let undigested = begun && home == Home::Model;
        Ok(Self { path: path.to_path_buf(), connection, total, home, undigested })
    }

    /// What has been spent of which total by the ledger of a model file, or of one that is a file of its own; `None` where a model file
    /// has none.
    ///
    /// # Errors
    /// When there is no such file, it is neither model nor ledger, or it cannot be read.
    pub fn look(path: &Path) -> Result<Option<Account>> {
        check_file(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if check_home(path, &connection)? == Home::EarlierModel {
            return Ok(None);
        }
        let Some(found) = read(path, &connection)? else { return Ok(None) };
        let total = budget(&found.rows[0]);
        Ok(Some(account(total, &releases(&found))?))
    }

    /// All releases, in order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn releases(&self) -> Result<Vec<Release>> {
        Ok(releases(&rows(&self.path, &self.connection)?))
    }

    /// What has been spent, at the agreed δ.
    ///
    /// # Errors
    /// As [`Ledger::releases`], and where what is on file is beyond the total.
    pub fn account(&self) -> Result<Account> {
        Ok(account(self.total, &self.releases()?)?)
    }

    /// Notes a release that is about to be made. Only when this has returned may it be shown to anybody.
    ///
    /// # Errors
    /// When the total would be passed, or it cannot be written; nothing is noted then.
    pub fn spend(&mut self, budget: Budget, what: &str) -> Result<Account> {
        let (path, total, home) = (self.path.clone(), self.total, self.home);
        let failed = |e: rusqlite::Error| FileError::sqlite(&path, "write", &e);
        let transaction = immediate(&mut self.connection).map_err(failed)?;
        let mut found = rows(&path, &transaction)?;
        let mut account = account(total, &releases(&found))?;
        account.spend(budget)?;
        found.insert(&transaction, row(budget, what)).map_err(failed)?;
        if home == Home::Model {
            drop_digest(&transaction).map_err(failed)?;
        }
        transaction.commit().map_err(|e| FileError::committing(&path, &e))?;
        self.undigested = home == Home::Model;
        Ok(account)
    }
}

fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Makes the table where there is none, and compares the total where there is one; whether anything was written.
fn begin(path: &Path, connection: &mut Connection, total: Budget) -> Result<(Home, bool)> {
    let failed = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    let transaction = immediate(connection).map_err(failed)?;
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    let home = if tables == 0 {
        (|| {
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)
        })()
        .map_err(failed)?;
        Home::Alone
    } else {
        check_home(path, &transaction)?
    };
    if home == Home::EarlierModel {
        let what = "a model file of an earlier version has no room for a privacy ledger; the next change of the model rewrites it, \
                    `pmfcl set` for instance";
        return Err(FileError::Io(path.to_path_buf(), what.to_owned()));
    }
    if let Some(found) = read(path, &transaction)? {
        let kept = budget(&found.rows[0]);
        if kept == total {
            return Ok((home, false));
        }
        let told = |of: Budget| format!("epsilon {} and delta {:e}", of.epsilon, of.delta);
        return Err(FileError::OtherTotal(path.to_path_buf(), told(kept), told(total)));
    }
    create(&transaction, row(total, "total")).map_err(failed)?;
    if home == Home::Model {
        drop_digest(&transaction).map_err(failed)?;
    }
    transaction.commit().map_err(|e| FileError::committing(path, &e))?;
    Ok((home, true))
}

/// A ledger or a model, by its header and tables.
fn check_home(path: &Path, connection: &Connection) -> Result<Home> {
    let number = |name: &str| -> Result<i64> {
        let found = connection.pragma_query_value(None, name, |row| row.get(0));
        found.map_err(|e| FileError::sqlite(path, "read", &e))
    };
    match number("application_id")? {
        APPLICATION if number("user_version")? == VERSION => Ok(Home::Alone),
        layout::APPLICATION => match check_layout(path, connection)? {
            Layout::Second => Ok(Home::Model),
            Layout::First => Ok(Home::EarlierModel),
        },
        _ => Err(FileError::NotAModel(path.to_path_buf(), "nor a privacy ledger")),
    }
}

/// The rows of a ledger, where there is one.
fn read(path: &Path, connection: &Connection) -> Result<Option<ReleaseRows>> {
    let found = ReleaseRows::read(connection).map_err(|e| FileError::sqlite(path, "read", &e))?;
    found.transpose().map_err(|what| FileError::Damaged(path.to_path_buf(), what))
}

/// The rows of a ledger that was there.
fn rows(path: &Path, connection: &Connection) -> Result<ReleaseRows> {
    let removed =
        || FileError::Damaged(path.to_path_buf(), "its privacy ledger has been removed".to_owned());
    read(path, connection)?.ok_or_else(removed)
}

fn row(budget: Budget, what: &str) -> ReleaseRow {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let Budget { epsilon, delta } = budget;
    ReleaseRow { time: time.cast_signed(), what: what.to_owned(), epsilon, delta }
}

fn budget(row: &ReleaseRow) -> Budget {
    Budget { epsilon: row.epsilon, delta: row.delta }
}

/// The rows after the total.
fn releases(found: &ReleaseRows) -> Vec<Release> {
    let release = |row: &ReleaseRow| Release {
        time: row.time.cast_unsigned(),
        what: row.what.clone(),
        budget: budget(row),
    };
    found.rows.iter().skip(1).map(release).collect()
}

fn account(total: Budget, releases: &[Release]) -> Result<Account, pmfcl::Error> {
    let mut account = Account::new(total)?;
    releases.iter().try_for_each(|release| account.spend(release.budget))?;
    Ok(account)
}
