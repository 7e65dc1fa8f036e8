/* wal_vfs.h -- a SQLite VFS that writes a transaction's WAL frames with one system call.
 *
 * SQLite writes each frame as a header of 24 bytes and a page, so that a request of 100 points
 * costs ten calls of pwrite. This VFS gathers writes that follow each other in a -wal file and
 * passes them to the VFS below in one. All else goes straight through. Why nothing is answered that
 * is not in the file: top of wal_vfs.c. */
#ifndef OTLITE_STORE_WAL_VFS_H
#define OTLITE_STORE_WAL_VFS_H

struct sqlite3_vfs;

/* Over SQLite's default VFS, registered once for the process; for the one write connection of
 * telemetry.db ("vfs=" in its DSN). NULL when SQLite refuses or has no memory. */
const char *wal_vfs_name(void);

/* The same over another VFS, under a name of the caller's (tests). The VFS lives as long as the
 * process. Gives a SQLite code. */
int wal_vfs_register(const char *name, struct sqlite3_vfs *below);

#endif
