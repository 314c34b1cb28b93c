//! The privacy ledger of a client: what it has given away over all its releases, in a file, so that a restart forgets nothing.
//!
//! One SQLite database with the total that was agreed and a row for each release. A release is written and synced before its noise is
//! drawn, in a transaction that first adds up what is there: two processes cannot both spend the last of it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pmfcl::private::{Account, Budget};
use rusqlite::{Connection, OpenFlags, params};

use crate::create::private_file;
use crate::error::FileError;
use crate::store::{Result, connect};

/// `PMFL`, in the header of the database.
const APPLICATION: i64 = 0x504D_464C;
const VERSION: i64 = 1;

/// A ledger, open.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    connection: Connection,
    total: Budget,
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

impl Ledger {
    /// Opens the ledger of that name, or begins one with a total that holds for good.
    ///
    /// # Errors
    /// When it was begun with another total, is no ledger, or cannot be read or written.
    pub fn open(path: &Path, total: Budget) -> Result<Self> {
        Account::new(total)?;
        private_file(path).map_err(|e| FileError::Io(path.to_path_buf(), e.to_string()))?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut ledger = Self { path: path.to_path_buf(), connection, total };
        ledger.begin()?;
        Ok(ledger)
    }

    fn failed(&self, error: &rusqlite::Error) -> FileError {
        FileError::sqlite(&self.path, "write", error)
    }

    /// Writes the tables where there are none, and compares the total where there is one.
    fn begin(&mut self) -> Result<()> {
        let total = self.total;
        let made = (|| {
            let transaction = self
                .connection
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let number =
                |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            let tables: i64 =
                transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
            if tables == 0 {
                transaction.pragma_update(None, "application_id", APPLICATION)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
                transaction.execute_batch(
                    "CREATE TABLE total (epsilon REAL NOT NULL, delta REAL NOT NULL) STRICT; \
                     CREATE TABLE release (place INTEGER PRIMARY KEY, time INTEGER NOT NULL, what TEXT NOT NULL, \
                     epsilon REAL NOT NULL, delta REAL NOT NULL) STRICT",
                )?;
                transaction
                    .execute("INSERT INTO total VALUES (?1, ?2)", [total.epsilon, total.delta])?;
            } else if (number("application_id")?, number("user_version")?) != (APPLICATION, VERSION)
            {
                return Ok(None);
            }
            let kept = transaction.query_row("SELECT epsilon, delta FROM total", [], |row| {
                Ok(Budget { epsilon: row.get(0)?, delta: row.get(1)? })
            })?;
            transaction.commit()?;
            Ok(Some(kept))
        })()
        .map_err(|e| self.failed(&e))?;
        match made {
            Some(kept) if kept == total => Ok(()),
            Some(kept) => Err(FileError::OtherTotal(
                self.path.clone(),
                format!("epsilon {} and delta {:e}", kept.epsilon, kept.delta),
                format!("epsilon {} and delta {:e}", total.epsilon, total.delta),
            )),
            None => Err(FileError::NotAModel(self.path.clone(), "nor a privacy ledger")),
        }
    }

    /// All releases, in order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn releases(&self) -> Result<Vec<Release>> {
        releases(&self.connection).map_err(|e| FileError::sqlite(&self.path, "read", &e))
    }

    /// What has been spent, at the agreed δ.
    ///
    /// # Errors
    /// As [`Ledger::releases`], and where what is on file is beyond the total.
    pub fn account(&self) -> Result<Account> {
        Ok(account(self.total, &self.releases()?)?)
    }

    /// Notes a release that is about to be made. Only when this has returned may noise be drawn.
    ///
    /// # Errors
    /// When the total would be passed, or it cannot be written; nothing is noted then.
    pub fn spend(&mut self, budget: Budget, what: &str) -> Result<Account> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let (path, total) = (self.path.clone(), self.total);
        let failed = |e: rusqlite::Error| FileError::sqlite(&path, "write", &e);
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(failed)?;
        let mut account = account(total, &releases(&transaction).map_err(failed)?)?;
        account.spend(budget)?;
        let sql = "INSERT INTO release (time, what, epsilon, delta) VALUES (?1, ?2, ?3, ?4)";
        transaction
            .execute(sql, params![now.cast_signed(), what, budget.epsilon, budget.delta])
            .map_err(failed)?;
        transaction.commit().map_err(|e| FileError::committing(&path, &e))?;
        Ok(account)
    }
}

fn releases(connection: &Connection) -> rusqlite::Result<Vec<Release>> {
    let sql = "SELECT time, what, epsilon, delta FROM release ORDER BY place";
    let mut statement = connection.prepare(sql)?;
    let release = |row: &rusqlite::Row<'_>| {
        Ok(Release {
            time: row.get::<_, i64>(0)?.cast_unsigned(),
            what: row.get(1)?,
            budget: Budget { epsilon: row.get(2)?, delta: row.get(3)? },
        })
    };
    statement.query_map([], release)?.collect()
}

fn account(total: Budget, releases: &[Release]) -> Result<Account, pmfcl::Error> {
    let mut account = Account::new(total)?;
    releases.iter().try_for_each(|release| account.spend(release.budget))?;
    Ok(account)
}
