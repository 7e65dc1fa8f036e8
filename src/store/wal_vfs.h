/* wal_vfs.h -- a SQLite VFS that writes a transaction's WAL frames with one system call.
 *
 * SQLite writes each frame as a header of 24 bytes and a page, so that a request of 100 points
 * costs ten calls of pwrite. This VFS gathers writes that follow each other in a -wal file and
 * passes them to the VFS below in one. All else goes straight through. Why nothing is answered that
 * is not in the file: top of wal_vfs.c. */
#ifndef OTLITE_STORE_WAL_VFS_H
#define OTLITE_STORE_WAL_VFS_H

struct sqlite3;
struct sqlite3_vfs;

/* Over SQLite's default VFS, registered once for the process; for the one write connection of
 * telemetry.db ("vfs=" in its DSN). NULL when SQLite refuses or has no memory. */
const char *wal_vfs_name(void);

/* The same over another VFS, under a name of the caller's (tests). The VFS lives as long as the
 * process. Gives a SQLite code. */
int wal_vfs_register(const char *name, struct sqlite3_vfs *below);

/* What the connection goes on holding when SQLite believes it free. Without effect on a connection
 * that does not use this VFS. */
enum wal_keep {
    WAL_KEEP_NOTHING,
    /* Between transactions that follow each other at once: the write lock and the place in the
     * log, which saves most of the six system calls for locks that each of them makes. Another
     * writer is kept out as long, and so is a checkpoint from moving what was committed meanwhile:
     * for a few milliseconds at most, and never while waiting. */
    WAL_KEEP_LOCKS,
    /* After WAL_KEEP_LOCKS, in a passive checkpoint of this connection: the place in the log alone.
     * So the checkpoint leaves the last transactions to the next one, and SQLite goes on with the
     * log instead of beginning it anew, for which it would write the log's header and sync it. */
    WAL_KEEP_MARK
};
void wal_vfs_keep(struct sqlite3 *sql, enum wal_keep keep);

#endif
