/* sql_tables.c -- registration of tables and functions, and the read that they share. */
#include "sql_internal.h"

#include <stdlib.h>
#include <string.h>

void sql_set_limits(struct sql_tables *t, const struct read_limits *limits)
{
    t->limits = limits != NULL ? *limits : (struct read_limits){0};
    t->error = (struct otl_error){0};
}

enum otl_err sql_last_error(const struct sql_tables *t, struct otl_error *err)
{
    if (t->error.code != OTL_OK && err != NULL)
        *err = t->error;
    return t->error.code;
}

static void tables_free(void *t)
{
    free(t);
}

static void fn_version(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_text(ctx, OTLITE_VERSION, -1, SQLITE_STATIC);
}

enum otl_err sql_register(struct db *db, struct read_shared *shared, struct sql_tables **out,
                          struct otl_error *err)
{
    struct sql_tables *t = calloc(1, sizeof(*t));
    int rc;

    if (t == NULL)
        return otl_fail(err, OTL_ENOMEM, "register SQL tables: no memory");
    t->db = *db;
    t->shared = shared;
    /* The function's end is the connection's. SQLite calls tables_free, also when this fails. */
    rc = sqlite3_create_function_v2(db->sql, "otlite_version", 0,
                                    SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, t,
                                    fn_version, NULL, NULL, tables_free);
    if (rc == SQLITE_OK)
        rc = sql_functions_register(db->sql);
    if (rc != SQLITE_OK)
        return db_fail(db, rc, "register SQL functions", err);
    *out = t;
    return OTL_OK;
}

/* ---- projects ---- */

/* What was looked at stays as it was: ids are never used twice, and a resource keeps its project.
 * So only newer ones are looked at. */
enum otl_err sql_only_project(struct sql_tables *t, int64_t project, bool *out,
                              struct otl_error *err)
{
    int64_t after = t->only_project == project ? t->only_up_to : 0;
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(
        &t->db,
        "SELECT count(*) FILTER (WHERE project_id <> ?1), max(id) FROM resource WHERE id > ?2", &st,
        err);
    int step;

    if (rc != OTL_OK)
        return rc;
    step = sqlite3_bind_int64(st, 1, project);
    if (step == SQLITE_OK)
        step = sqlite3_bind_int64(st, 2, after);
    if (step == SQLITE_OK)
        step = sqlite3_step(st);
    if (step == SQLITE_ROW) {
        *out = sqlite3_column_int64(st, 0) == 0;
        if (*out && sqlite3_column_type(st, 1) != SQLITE_NULL) {
            t->only_project = project;
            t->only_up_to = sqlite3_column_int64(st, 1);
        }
    } else {
        rc = db_fail(&t->db, step, "look for other projects", err);
    }
    (void)sqlite3_finalize(st);
    return rc;
}
