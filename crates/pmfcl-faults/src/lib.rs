//! Faults under SQLite, for tests: after [`install`], the k-th operation of a thread on any database file can be made to fail.
//!
//! A file system of SQLite's (VFS) that is the default one, except that opening, writing, cutting, syncing, locking and deleting
//! files are counted, and fail where [`fail`] says so. A write that fails has written half of its bytes, as one does when the power
//! goes. Unlocking and closing always work: a process that dies does both.
//!
//! After [`install_allocator`] the same can be done to the memory SQLite asks for ([`fail_allocation`]).

#![allow(unsafe_code, reason = "SQLite's interface for file systems is C")]
#![allow(non_snake_case, reason = "the names are SQLite's")]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Once, OnceLock};

use rusqlite::ffi::{
    self, SQLITE_CANTOPEN, SQLITE_IOERR_DELETE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_LOCK,
    SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE, SQLITE_OK, sqlite3_file, sqlite3_int64,
    sqlite3_io_methods, sqlite3_mem_methods, sqlite3_vfs,
};

/// For how long operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One operation: a disk that was full for a moment.
    Once,
    /// From that operation on, until [`heal`]: the process is dead, or the disk is gone.
    Lasting,
}

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Operations on files.
    File,
    /// Allocations.
    Memory,
}

#[derive(Clone, Copy)]
struct Plan {
    kind: Kind,
    fault: Fault,
    /// Operations that still work.
    left: u64,
    /// Whether one has failed.
    hit: bool,
}

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
}

/// Lets the operation after the next `works` of this thread fail.
pub fn fail(works: u64, fault: Fault) {
    PLAN.set(Some(Plan { kind: Kind::File, fault, left: works, hit: false }));
}

/// Lets the allocation of SQLite after the next `works` of this thread fail. [`install_allocator`] comes first.
pub fn fail_allocation(works: u64, fault: Fault) {
    PLAN.set(Some(Plan { kind: Kind::Memory, fault, left: works, hit: false }));
}

/// Everything works again. Whether anything has failed since [`fail`].
pub fn heal() -> bool {
    PLAN.take().is_some_and(|plan| plan.hit)
}

/// Whether this operation is to fail.
fn fails() -> bool {
    fails_in(Kind::File)
}

fn fails_in(kind: Kind) -> bool {
    // Memory is also freed when a thread ends, and its plan with it.
    let plan = PLAN.try_with(Cell::get).ok().flatten();
    let Some(mut plan) = plan.filter(|plan| plan.kind == kind) else { return false };
    let fails = match plan.fault {
        Fault::Once => plan.left == 0 && !plan.hit,
        Fault::Lasting => plan.left == 0,
    };
    plan.left = plan.left.saturating_sub(1);
    plan.hit |= fails;
    PLAN.set(Some(plan));
    fails
}

/// The functions of a file of this VFS, and after them those of the file below.
#[repr(C)]
struct Methods {
    own: sqlite3_io_methods,
    below: *const sqlite3_io_methods,
}

/// Makes it the file system of every connection of this process that is opened from now on.
///
/// # Panics
/// When SQLite has no file system, or does not take this one.
pub fn install() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // SAFETY: the default VFS lives as long as the process; the copy is leaked, so it does too.
        unsafe {
            let below = ffi::sqlite3_vfs_find(std::ptr::null());
            assert!(!below.is_null(), "SQLite has no file system");
            let mut own = *below;
            own.zName = c"pmfcl-faults".as_ptr();
            own.pNext = std::ptr::null_mut();
            own.xOpen = Some(open);
            own.xDelete = Some(delete);
            let done = ffi::sqlite3_vfs_register(Box::leak(Box::new(own)), 1);
            assert_eq!(done, SQLITE_OK, "SQLite does not take the file system");
        }
    });
}

/// SQLite's own functions for memory.
struct Allocator {
    allocate: unsafe extern "C" fn(c_int) -> *mut c_void,
    reallocate: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Puts faults under the memory of SQLite. Before anything of SQLite is used in this process: later it takes no other allocator.
///
/// # Panics
/// When SQLite has been used already.
pub fn install_allocator() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // SAFETY: SQLite fills in its own functions, then copies those given. All of them stay for the life of the process.
        unsafe {
            let mut own = std::mem::zeroed::<sqlite3_mem_methods>();
            let found = ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut own);
            assert_eq!(found, SQLITE_OK, "SQLite has been used already");
            ALLOCATOR.get_or_init(|| Allocator {
                allocate: own.xMalloc.expect("SQLite has an allocator"),
                reallocate: own.xRealloc.expect("SQLite has an allocator"),
            });
            own.xMalloc = Some(allocate);
            own.xRealloc = Some(reallocate);
            let taken = ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw mut own);
            assert_eq!(taken, SQLITE_OK, "SQLite takes no other allocator");
        }
    });
}

fn allocator() -> &'static Allocator {
    ALLOCATOR.get().expect("installed")
}

unsafe extern "C" fn allocate(amount: c_int) -> *mut c_void {
    if fails_in(Kind::Memory) {
        return std::ptr::null_mut();
    }
    // SAFETY: the argument is SQLite's own.
    unsafe { (allocator().allocate)(amount) }
}

unsafe extern "C" fn reallocate(old: *mut c_void, amount: c_int) -> *mut c_void {
    if fails_in(Kind::Memory) {
        return std::ptr::null_mut();
    }
    // SAFETY: the arguments are SQLite's own.
    unsafe { (allocator().reallocate)(old, amount) }
}

/// The file system below. It is still registered under its own name.
fn below() -> *mut sqlite3_vfs {
    // SAFETY: a search by name in a list that is never freed.
    unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) }
}

unsafe extern "C" fn open(
    _vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a file of the size the VFS asked for, which is that of the one below; it sets the methods of a file that it
    // has opened, and they are exchanged for a leaked copy that goes on to them.
    unsafe {
        if fails() {
            (*file).pMethods = std::ptr::null();
            return SQLITE_CANTOPEN;
        }
        let vfs = below();
        let done = (*vfs).xOpen.expect("a VFS opens files")(vfs, name, file, flags, out);
        let found = (*file).pMethods;
        if done == SQLITE_OK && !found.is_null() {
            let mut own = *found;
            own.xWrite = Some(write);
            own.xTruncate = Some(truncate);
            own.xSync = Some(sync);
            own.xLock = Some(lock);
            let methods = Box::leak(Box::new(Methods { own, below: found }));
            (*file).pMethods = &raw const methods.own;
        }
        done
    }
}

unsafe extern "C" fn delete(_vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    if fails() {
        return SQLITE_IOERR_DELETE;
    }
    let vfs = below();
    // SAFETY: the arguments are SQLite's own.
    unsafe { (*vfs).xDelete.expect("a VFS deletes files")(vfs, name, sync) }
}

/// The functions of the file below.
///
/// # Safety
/// For files that [`open`] has opened.
unsafe fn methods(file: *mut sqlite3_file) -> *const sqlite3_io_methods {
    // SAFETY: their methods are the first field of a `Methods`.
    unsafe { (*(*file).pMethods.cast::<Methods>()).below }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: the arguments are SQLite's own, and half of an amount is within it.
    unsafe {
        let write = (*methods(file)).xWrite.expect("a file can be written");
        if fails() {
            write(file, bytes, amount / 2, offset);
            return SQLITE_IOERR_WRITE;
        }
        write(file, bytes, amount, offset)
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    if fails() {
        return SQLITE_IOERR_TRUNCATE;
    }
    // SAFETY: the arguments are SQLite's own.
    unsafe { (*methods(file)).xTruncate.expect("a file can be cut")(file, size) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    if fails() {
        return SQLITE_IOERR_FSYNC;
    }
    // SAFETY: the arguments are SQLite's own.
    unsafe { (*methods(file)).xSync.expect("a file can be synced")(file, flags) }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    if fails() {
        return SQLITE_IOERR_LOCK;
    }
    // SAFETY: the arguments are SQLite's own.
    unsafe { (*methods(file)).xLock.expect("a file can be locked")(file, level) }
}
