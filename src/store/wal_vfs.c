/* What SQLite may believe when a call returns, and why it still may:
 *
 * W1 A commit is published (to this process and all others) by the wal-index, which SQLite writes
 * after the xWrite of the commit frame's page has returned SQLITE_OK. The frame header carries the
 * mark: bytes 4 to 7, the database's size in pages, are zero in all frames but the last of a
 * transaction (file format, "WAL Frame Header"). So the write that follows a marked header passes
 * everything on before it returns, and returns what the VFS below said. No frame is ever held back
 * behind a commit.
 *
 * W2 An error of a held-back write comes out of the next call on the file that can fail: another
 * write, a read, a sync, a truncation. All of them come before W1's, so it fails the transaction
 * that it belongs to.
 *
 * W3 Only a write that begins where the last one ended is held back. A page that is written a
 * second time, and the frame headers that then get new checksums, lie before that place and go
 * straight through, marked or not.
 *
 * W4 Whoever looks at the file through this handle (read, size, sync, truncate, close) sees all of
 * it: what is held back is passed on first. Others look only at frames that are published.
 *
 * W5 What is held back when the write lock is released belongs to a transaction that was rolled
 * back after it spilled pages: W1 leaves nothing of a committed one. It is dropped, because from
 * then on another process may commit at the same place in the file.
 *
 * W6 While locks are kept (wal_vfs_keep), SQLite's unlocking of the write lock and of its
 * read mark is put off: it believes them free and does without, others see them held. Both mean
 * less to others than to SQLite: nobody commits in between, and a mark that is not raised to the
 * newest commit (answered as if another reader held it, which SQLite is made for: it then uses the
 * mark that is there) only has a checkpoint of another process stop earlier. What is none of the
 * calls of a transaction sets the mark free first. W5 counts from when SQLite unlocks.
 *
 * The database file is not combined: the last write of a checkpoint that a reader cuts short is
 * followed by no call whose failure SQLite would notice. */
#include "wal_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_HEADER_BYTES = 24,
    /* The frames of a request of a few thousand points. SQLite's unix VFS takes one write only
     * while its length fits in 17 bits. */
    HELD_BYTES = 120 * 1024,
    /* Of xShmLock (file format, "WAL-Index locks"). Mark 0 is of readers that need no log. */
    LOCK_WRITE = 0,
    LOCK_FIRST_MARK = 4,
    LOCK_END = 8,
    KEEP = 0x6f746c /* of xFileControl: a number that nobody else has */
};

struct wal_vfs {
    sqlite3_vfs vfs; /* first: SQLite sees only this */
    sqlite3_vfs *below;
};

/* One open file; the file of the VFS below lies behind it. */
struct wal_file {
    sqlite3_file file; /* first */
    sqlite3_file *below;
    struct wal_file *peer; /* the database's WAL, the WAL's database; NULL: not open (W5) */
    uint8_t *held;         /* HELD_BYTES; NULL: not a WAL, nothing is held back */
    int n;                 /* bytes in held */
    sqlite3_int64 at;      /* their place in the file */
    sqlite3_int64 end;     /* where the last write ended; -1: none yet, or it failed */
    bool marked;           /* the last write was the header of a commit frame */
    /* Of a database file: W6. */
    enum wal_keep keeps;
    bool kept_write; /* held, and SQLite believes it free */
    int kept_mark;   /* likewise; 0: none */
};

static struct wal_file *file_of(sqlite3_file *f)
{
    return (struct wal_file *)f;
}

/* Pass on what is held back. After a failure it is gone, as the rest of a short write would be. */
static int pass_on(struct wal_file *w)
{
    int n = w->n, rc;

    if (n == 0)
        return SQLITE_OK;
    w->n = 0;
    rc = w->below->pMethods->xWrite(w->below, w->held, n, w->at);
    if (rc != SQLITE_OK)
        w->end = -1;
    return rc;
}

static bool is_marked_header(const void *p, int n)
{
    static const uint8_t unmarked[4];

    return n == FRAME_HEADER_BYTES && memcmp((const uint8_t *)p + 4, unmarked, 4) != 0;
}

static int write_through(struct wal_file *w, const void *p, int n, sqlite3_int64 at)
{
    int rc = pass_on(w);

    if (rc == SQLITE_OK)
        rc = w->below->pMethods->xWrite(w->below, p, n, at);
    w->end = rc == SQLITE_OK ? at + n : -1;
    w->marked = is_marked_header(p, n);
    return rc;
}

static int file_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct wal_file *w = file_of(f);
    bool after_mark = w->marked;
    int rc = SQLITE_OK;

    if (w->held == NULL)
        return w->below->pMethods->xWrite(w->below, p, n, at);
    if (at != w->end || n > HELD_BYTES)
        return write_through(w, p, n, at);
    if (n > HELD_BYTES - w->n) {
        rc = pass_on(w);
        if (rc != SQLITE_OK)
            return rc;
    }
    if (w->n == 0)
        w->at = at;
    memcpy(w->held + w->n, p, (size_t)n);
    w->n += n;
    w->end = at + n;
    w->marked = is_marked_header(p, n);
    return after_mark ? pass_on(w) : SQLITE_OK; /* W1 */
}

static int file_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    struct wal_file *w = file_of(f);
    int rc = pass_on(w);

    return rc == SQLITE_OK ? w->below->pMethods->xRead(w->below, p, n, at) : rc;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct wal_file *w = file_of(f);
    int rc = pass_on(w);

    return rc == SQLITE_OK ? w->below->pMethods->xTruncate(w->below, size) : rc;
}

static int file_sync(sqlite3_file *f, int flags)
{
    struct wal_file *w = file_of(f);
    int rc = pass_on(w);

    return rc == SQLITE_OK ? w->below->pMethods->xSync(w->below, flags) : rc;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *out)
{
    struct wal_file *w = file_of(f);
    int rc = pass_on(w);

    return rc == SQLITE_OK ? w->below->pMethods->xFileSize(w->below, out) : rc;
}

static int file_close(sqlite3_file *f)
{
    struct wal_file *w = file_of(f);
    int held = pass_on(w);
    int rc = w->below->pMethods->xClose(w->below);

    if (w->peer != NULL)
        w->peer->peer = NULL;
    free(w->held);
    w->held = NULL;
    return held != SQLITE_OK ? held : rc;
}

/* The write lock is released, or SQLite believes so: W5. */
static void drop_rest(struct wal_file *w)
{
    struct wal_file *wal = w->peer;

    if (wal != NULL && wal->n > 0) {
        wal->n = 0;
        wal->end = -1;
        wal->marked = false;
    }
}

/* SQLite, too, does not ask whether unlocking went well: a lock that stays is only in the way. */
static void unlock(struct wal_file *w, int offset, int how)
{
    (void)w->below->pMethods->xShmLock(w->below, offset, 1, SQLITE_SHM_UNLOCK | how);
}

static void free_mark(struct wal_file *w)
{
    if (w->kept_mark != 0)
        unlock(w, w->kept_mark, SQLITE_SHM_SHARED);
    w->kept_mark = 0;
}

static void free_write(struct wal_file *w)
{
    if (w->kept_write)
        unlock(w, LOCK_WRITE, SQLITE_SHM_EXCLUSIVE);
    w->kept_write = false;
}

/* W6: true when the call needs no lock, nor an unlock, of the file; *rc is then its answer. */
static bool answer_by_kept(struct wal_file *w, int offset, int flags, int *rc)
{
    bool is_mark = offset >= LOCK_FIRST_MARK && offset < LOCK_END;

    *rc = SQLITE_OK;
    switch (flags) {
    case SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE:
        /* A checkpoint tries each mark, and clears those that nobody uses. */
        if (is_mark && w->kept_mark != 0 &&
            (w->keeps == WAL_KEEP_LOCKS || offset == w->kept_mark)) {
            *rc = SQLITE_BUSY;
            return true;
        }
        if (offset != LOCK_WRITE || !w->kept_write)
            return false;
        w->kept_write = false;
        return true;
    case SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE:
        if (offset != LOCK_WRITE || w->keeps != WAL_KEEP_LOCKS)
            return false;
        w->kept_write = true;
        return true;
    case SQLITE_SHM_LOCK | SQLITE_SHM_SHARED:
        if (w->kept_mark == 0 || offset != w->kept_mark)
            return false;
        w->kept_mark = 0;
        return true;
    case SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED:
        if (!is_mark || w->keeps != WAL_KEEP_LOCKS)
            return false;
        free_mark(w);
        w->kept_mark = offset;
        return true;
    default:
        return false;
    }
}

/* The locks of a WAL are those of its database file. */
static int file_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    struct wal_file *w = file_of(f);
    int rc;

    if (offset == LOCK_WRITE && flags == (SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE))
        drop_rest(w);
    if (n == 1 && answer_by_kept(w, offset, flags, &rc))
        return rc;
    if (n > 1 || (offset != LOCK_WRITE && w->keeps != WAL_KEEP_MARK))
        free_mark(w);
    return w->below->pMethods->xShmLock(w->below, offset, n, flags);
}

/* ---- straight through ---- */

static int file_lock(sqlite3_file *f, int level)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xLock(w->below, level);
}

static int file_unlock(sqlite3_file *f, int level)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xUnlock(w->below, level);
}

static int file_check_reserved_lock(sqlite3_file *f, int *out)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xCheckReservedLock(w->below, out);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    struct wal_file *w = file_of(f);

    if (op == KEEP) {
        w->keeps = *(const enum wal_keep *)arg;
        if (w->keeps != WAL_KEEP_LOCKS)
            free_write(w);
        if (w->keeps == WAL_KEEP_NOTHING)
            free_mark(w);
        return SQLITE_OK;
    }
    return w->below->pMethods->xFileControl(w->below, op, arg);
}

static int file_sector_size(sqlite3_file *f)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xSectorSize(w->below);
}

static int file_device_characteristics(sqlite3_file *f)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xDeviceCharacteristics(w->below);
}

static int file_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xShmMap(w->below, region, size, extend, out);
}

static void file_shm_barrier(sqlite3_file *f)
{
    struct wal_file *w = file_of(f);

    w->below->pMethods->xShmBarrier(w->below);
}

static int file_shm_unmap(sqlite3_file *f, int delete_it)
{
    struct wal_file *w = file_of(f);

    free_write(w);
    free_mark(w);
    w->keeps = WAL_KEEP_NOTHING;
    return w->below->pMethods->xShmUnmap(w->below, delete_it);
}

/* Only the database file is mapped, and it holds nothing back. */
static int file_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xFetch(w->below, at, n, out);
}

static int file_unfetch(sqlite3_file *f, sqlite3_int64 at, void *p)
{
    struct wal_file *w = file_of(f);

    return w->below->pMethods->xUnfetch(w->below, at, p);
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 3,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_device_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
    .xFetch = file_fetch,
    .xUnfetch = file_unfetch,
};

/* ---- opening ---- */

static void find_database(struct wal_file *w, sqlite3_filename name)
{
    sqlite3_file *db = sqlite3_database_file_object(name);

    if (db == NULL || db->pMethods != &file_methods)
        return;
    w->peer = file_of(db);
    w->peer->peer = w;
}

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags,
                    int *out_flags)
{
    sqlite3_vfs *below = ((struct wal_vfs *)vfs)->below;
    struct wal_file *w = file_of(f);
    int rc;

    *w = (struct wal_file){.below = (sqlite3_file *)(w + 1), .end = -1};
    rc = below->xOpen(below, name, w->below, flags, out_flags);
    if (w->below->pMethods == NULL)
        return rc; /* nothing to close */
    /* Memory journals and the like have older methods; they are never files of a WAL database. */
    if (rc == SQLITE_OK && w->below->pMethods->iVersion < 3) {
        (void)w->below->pMethods->xClose(w->below);
        return SQLITE_CANTOPEN;
    }
    /* Where a write may damage bytes beside it, SQLite repeats the last frame up to the end of a
     * sector and splits the write there, which W1 does not follow. Unix files are safe. Without
     * memory, too, every write goes through. */
    if ((flags & SQLITE_OPEN_WAL) != 0 && (w->below->pMethods->xDeviceCharacteristics(w->below) &
                                           SQLITE_IOCAP_POWERSAFE_OVERWRITE) != 0)
        w->held = malloc(HELD_BYTES);
    if (rc == SQLITE_OK && w->held != NULL)
        find_database(w, name);
    w->file.pMethods = &file_methods;
    return rc;
}

int wal_vfs_register(const char *name, sqlite3_vfs *below)
{
    struct wal_vfs *v = malloc(sizeof(*v));
    int rc;

    if (v == NULL)
        return SQLITE_NOMEM;
    /* All methods but xOpen are those of the VFS below, which know no more of the VFS they are
     * called with than its members. */
    *v = (struct wal_vfs){.vfs = *below, .below = below};
    v->vfs.zName = name;
    v->vfs.pNext = NULL;
    v->vfs.szOsFile = (int)sizeof(struct wal_file) + below->szOsFile;
    v->vfs.xOpen = vfs_open;
    rc = sqlite3_vfs_register(&v->vfs, 0);
    if (rc != SQLITE_OK)
        free(v);
    return rc;
}

static const char NAME[] = "otlite-wal";
static bool registered;

static void register_once(void)
{
    sqlite3_vfs *below = sqlite3_vfs_find(NULL);

    registered = below != NULL && wal_vfs_register(NAME, below) == SQLITE_OK;
}

const char *wal_vfs_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, register_once);
    return registered ? NAME : NULL;
}

void wal_vfs_keep(struct sqlite3 *sql, enum wal_keep keep)
{
    /* On a connection of another VFS it fails, and nothing is kept. */
    (void)sqlite3_file_control(sql, "main", KEEP, &keep);
}
