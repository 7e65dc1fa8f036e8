/* sql_tables.c -- registration of tables and functions, and the read that they share. */
#include "sql_internal.h"

#include <stdlib.h>
#include <string.h>

/* For connections that bring no read_shared, other processes' mostly. */
enum { OWN_CACHE_BYTES = 64 << 20 };

/* ---- the read of a statement ---- */

static void end_read(struct sql_tables *t)
{
    read_end(t->read);
    t->read = NULL;
}

/* Statements of the session would keep sqlite3_close from closing. */
static void close_session(struct sql_tables *t)
{
    end_read(t);
    if (t->session != NULL)
        read_session_close(t->session);
    t->session = NULL;
    if (t->own_shared)
        read_shared_free(t->shared);
    if (t->own_shared)
        t->shared = NULL;
}

void sql_cursor_opened(struct sql_tables *t)
{
    if (t->cursors++ == 0)
        t->error = (struct otl_error){0};
}

void sql_cursor_closed(struct sql_tables *t)
{
    if (--t->cursors == 0)
        end_read(t);
}

enum otl_err sql_read(struct sql_tables *t, struct read **out, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (t->shared == NULL) {
        t->own_shared = true;
        rc = read_shared_new(NULL, OWN_CACHE_BYTES, &t->shared, err);
    }
    if (rc == OTL_OK && t->session == NULL)
        rc = read_session_open(t->shared, &t->db, &t->session, err);
    if (rc == OTL_OK && t->read == NULL)
        rc = read_begin(t->session, &t->limits, false, &t->read, err);
    if (rc == OTL_OK)
        *out = t->read;
    return rc;
}

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

/* ---- tables ---- */

int sql_table_connect(sqlite3 *sql, const struct sql_aux *aux, const char *declaration,
                      sqlite3_vtab **out)
{
    struct sql_table *table;
    int rc = sqlite3_declare_vtab(sql, declaration);

    if (rc == SQLITE_OK)
        rc = sqlite3_vtab_config(sql, SQLITE_VTAB_INNOCUOUS);
    if (rc != SQLITE_OK)
        return rc;
    table = sqlite3_malloc(sizeof(*table));
    if (table == NULL)
        return SQLITE_NOMEM;
    *table = (struct sql_table){.t = aux->t, .what = aux->what};
    aux->t->connected++;
    *out = &table->base;
    return SQLITE_OK;
}

int sql_table_disconnect(sqlite3_vtab *base)
{
    struct sql_table *table = (struct sql_table *)base;

    if (--table->t->connected == 0)
        close_session(table->t);
    sqlite3_free(table);
    return SQLITE_OK;
}

int sql_table_fail(sqlite3_vtab *base, const struct otl_error *err)
{
    struct sql_table *table = (struct sql_table *)base;

    table->t->error = *err;
    sqlite3_free(base->zErrMsg);
    base->zErrMsg = sqlite3_mprintf("%s", err->msg);
    return err->code == OTL_ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}

int sql_add_module(struct sql_tables *t, const char *name, const sqlite3_module *m,
                   const void *what)
{
    struct sql_aux *aux = malloc(sizeof(*aux));

    if (aux == NULL)
        return SQLITE_NOMEM;
    *aux = (struct sql_aux){t, what};
    /* SQLite frees aux, also when it fails. */
    return sqlite3_create_module_v2(t->db.sql, name, m, aux, free);
}

static void fn_version(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_text(ctx, OTLITE_VERSION, -1, SQLITE_STATIC);
}

static void tables_free(void *arg)
{
    close_session(arg);
    free(arg);
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
    if (rc == SQLITE_OK)
        rc = sql_points_register(t);
    if (rc == SQLITE_OK)
        rc = sql_calls_register(t);
    if (rc != SQLITE_OK)
        return db_fail(db, rc, "register SQL tables", err);
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
