/* Faults under a whole program, for tests: loaded before the C library (LD_PRELOAD), it lets the k-th operation on files of one
 * directory fail, or kills the process there.
 *
 * Counted are: opening for writing, writing, cutting, syncing, naming (rename, link) and unlinking. A write that fails has written half of
 * its bytes. PMFCL_FAULT_DIR is the directory; PMFCL_FAULT=K:once, K:lasting or K:kill arms it at the start, pmfcl_fail() later. The names of
 * the operations are written to PMFCL_FAULT_LOG.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, ONCE, LASTING, KILL };

static char directory[4096];
static long left = -1;
static int mode = OFF, hits, list = -1;

/* Lets the operation after the next `works` fail. */
void pmfcl_fail(long works, int how) {
    left = works;
    mode = how;
    hits = 0;
}

/* Everything works again; how many operations have failed. */
int pmfcl_heal(void) {
    mode = OFF;
    return hits;
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("PMFCL_FAULT_DIR"), *what = getenv("PMFCL_FAULT");
    if (where && strlen(where) < sizeof directory) strcpy(directory, where);
    const char *log = getenv("PMFCL_FAULT_LOG");
    if (log) list = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (what) {
        const char *how = strchr(what, ':');
        pmfcl_fail(atol(what), !how ? OFF : !strcmp(how, ":once") ? ONCE : !strcmp(how, ":lasting") ? LASTING : KILL);
    }
}

static int within(const char *path) {
    size_t n = strlen(directory);
    return n && path && !strncmp(path, directory, n);
}

static int file_within(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return within(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Most programs write to other files most of the time. */
static int watched(int fd) {
    return fd > 2 && fd != list && (mode != OFF || list >= 0);
}

/* Whether this operation is to fail. */
static int fails(const char *name, int counted) {
    if (counted && list >= 0) dprintf(list, "%s\n", name);
    if (mode == OFF || !counted) return 0;
    if (left-- > 0) return 0;
    if (mode == ONCE && hits) return 0;
    hits++;
    return 1;
}

static void die_if_killed(void) {
    if (mode == KILL) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

#define FAIL(error) do { die_if_killed(); errno = (error); return -1; } while (0)

static int writes(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
}

#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        mode_t rights = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;       \
        va_end(rest);                                                                     \
        if (fails(#name, writes(flags) && within(path))) FAIL(ENOSPC);                           \
        return REAL(name)(path, flags, rights);                                           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                      \
    int name(int at, const char *path, int flags, ...) {                                  \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        mode_t rights = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;       \
        va_end(rest);                                                                     \
        if (fails(#name, writes(flags) && within(path))) FAIL(ENOSPC);                           \
        return REAL(name)(at, path, flags, rights);                                       \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *bytes, size_t n) {
    if (watched(fd) && fails("write", file_within(fd))) {
        ssize_t done = REAL(write)(fd, bytes, n / 2);
        (void)done;
        FAIL(ENOSPC);
    }
    return REAL(write)(fd, bytes, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    if (watched(fd) && fails("writev", file_within(fd))) FAIL(ENOSPC);
    return REAL(writev)(fd, parts, n);
}

#define PWRITE(name, type)                                                                \
    ssize_t name(int fd, const void *bytes, size_t n, type at) {                          \
        if (watched(fd) && fails(#name, file_within(fd))) {                                      \
            ssize_t done = REAL(name)(fd, bytes, n / 2, at);                              \
            (void)done;                                                                   \
            FAIL(ENOSPC);                                                                 \
        }                                                                                 \
        return REAL(name)(fd, bytes, n, at);                                              \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define OF_FILE(name)                                                                     \
    int name(int fd) {                                                                    \
        if (watched(fd) && fails(#name, file_within(fd))) FAIL(EIO);                             \
        return REAL(name)(fd);                                                            \
    }
OF_FILE(fsync)
OF_FILE(fdatasync)

#define CUT(name, type)                                                                   \
    int name(int fd, type size) {                                                         \
        if (watched(fd) && fails(#name, file_within(fd))) FAIL(EIO);                             \
        return REAL(name)(fd, size);                                                      \
    }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

#define OF_NAMES(name)                                                                    \
    int name(const char *from, const char *to) {                                          \
        if (fails(#name, within(to))) FAIL(EIO);                                          \
        return REAL(name)(from, to);                                                      \
    }
OF_NAMES(rename)
OF_NAMES(link)

int renameat(int from_at, const char *from, int to_at, const char *to) {
    if (fails("rename", within(to))) FAIL(EIO);
    return REAL(renameat)(from_at, from, to_at, to);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    if (fails("link", within(to))) FAIL(EPERM);
    return REAL(linkat)(from_at, from, to_at, to, flags);
}
