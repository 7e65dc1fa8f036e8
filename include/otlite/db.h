/* db.h -- one SQLite connection: opened by DSN, its pragmas read back, raw codes turned into
 * otl_err. Only src/store, src/state and the subcommands that read a database include sqlite3.h. */
#ifndef OTLITE_DB_H
#define OTLITE_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

struct sqlite3;
struct sqlite3_stmt;

/* A connection belongs to one thread at a time (opened with SQLITE_OPEN_NOMUTEX). */
struct db {
    struct sqlite3 *sql;
    char path[4096]; /* for messages */
};

enum db_mode { DB_READ_WRITE_CREATE, DB_READ_WRITE, DB_READ_ONLY };

/* Compose a DSN, "file:PATH?_pragma=name(value)&_pragma=...", PATH percent-encoded. pragmas is a
 * NULL-terminated list of "name(value)". "&vfs=NAME" may follow: SQLite opens the file by that VFS.
 */
void db_dsn(struct buf *out, const char *path, const char *const *pragmas);

/* Open by DSN: apply the pragmas in order, then read each back; a value that did not take is
 * OTL_EDB with a message that names pragma, wanted and actual value. A file that is no database,
 * a directory, missing rights and so on: a message with the path, the cause and what to do.
 * Extended result codes on, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE set when read-only. */
enum otl_err db_open(struct db *db, const char *dsn, enum db_mode mode,
                     struct otl_error *err) OTL_MUSTCHECK;
/* Closes; takes a zeroed db. All statements must be finalised. */
void db_close(struct db *db);

/* Turn the connection's last error into err: OTL_ELOCKED (busy, locked), OTL_EFULL, OTL_EIO,
 * OTL_ECORRUPT (corrupt, notadb), OTL_ENOMEM, else OTL_EDB. what: "insert a point" and the like. */
enum otl_err db_fail(struct db *db, int sqlite_rc, const char *what, struct otl_error *err);

enum otl_err db_exec(struct db *db, const char *sql, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err db_prepare(struct db *db, const char *sql, struct sqlite3_stmt **out,
                        struct otl_error *err) OTL_MUSTCHECK;
/* Run a statement that gives no rows, then reset it and clear its bindings on every path. */
enum otl_err db_run(struct db *db, struct sqlite3_stmt *st, const char *what,
                    struct otl_error *err) OTL_MUSTCHECK;
/* First column of the first row as int64; OTL_EDB when there is no row. */
enum otl_err db_query_int(struct db *db, const char *sql, int64_t *out,
                          struct otl_error *err) OTL_MUSTCHECK;

/* One migration takes the file from version N (its index) to N + 1, inside one transaction. */
struct db_migration {
    const char *sql;
};

/* Bring the file to version n (PRAGMA user_version) by the steps it lacks. application_id tells
 * our files from other people's: a non-empty database without it is refused, as is one of a newer
 * version; neither is touched. */
enum otl_err db_migrate(struct db *db, int32_t application_id, const struct db_migration *steps,
                        int n, struct otl_error *err) OTL_MUSTCHECK;
/* Read-only counterpart: refuse foreign, newer or older files. */
enum otl_err db_check_version(struct db *db, int32_t application_id, int n,
                              struct otl_error *err) OTL_MUSTCHECK;

#endif
