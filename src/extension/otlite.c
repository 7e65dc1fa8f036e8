/* otlite.c -- the loadable extension: `.load otlite` in the sqlite3 shell, load_extension
 * elsewhere.
 *
 * Everything is built once more for it, with <sqlite3.h> from src/extension/host in front. There is
 * neither a copy of SQLite in it nor a dependency on one. */
#include <sqlite3.h>
#include <stdio.h>

#include "otlite/sql.h"
#include "otlite/store.h"

SQLITE_EXTENSION_INIT1

/* sqlite3_vtab_in came with it; a table of an older host ends before that entry. */
enum { LEAST_SQLITE = 3038000 };

int sqlite3_otlite_init(sqlite3 *sql, char **msg, const sqlite3_api_routines *api);

static int refuse(char **msg, const char *text)
{
    *msg = sqlite3_mprintf("otlite: %s", text);
    return SQLITE_ERROR;
}

__attribute__((visibility("default"))) int sqlite3_otlite_init(sqlite3 *sql, char **msg,
                                                               const sqlite3_api_routines *api)
{
    struct db db = {.sql = sql};
    struct sql_tables *tables;
    struct otl_error err;
    const char *path;

    SQLITE_EXTENSION_INIT2(api);
    if (sqlite3_libversion_number() < LEAST_SQLITE)
        return refuse(msg, "needs SQLite 3.38 or later");
    path = sqlite3_db_filename(sql, "main");
    if (path == NULL || path[0] == '\0')
        return refuse(msg, "open telemetry.db first, as the connection's main database");
    (void)snprintf(db.path, sizeof(db.path), "%s", path);
    if (store_check_reader(&db, &err) != OTL_OK || sql_register(&db, NULL, &tables, &err) != OTL_OK)
        return refuse(msg, err.msg);
    return SQLITE_OK;
}
