#include "state_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

int64_t sfx_now;

static int64_t fake_wall(void)
{
    return sfx_now;
}

int sfx_setup(void **state)
{
    struct sfx *f = calloc(1, sizeof(*f));
    struct otl_error err = {0};

    assert_non_null(f);
    strcpy(f->dir, "/tmp/otlite-state-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    sfx_now = SFX_T0;
    clock_set_wall(fake_wall);
    if (state_open(f->dir, &f->st, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    *state = f;
    return 0;
}

int sfx_teardown(void **state)
{
    struct sfx *f = *state;
    char path[400];
    struct dirent *e;
    DIR *d = opendir(f->dir);

    state_close(f->st);
    clock_set_wall(NULL);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", f->dir, e->d_name);
            unlink(path);
        }
    }
    closedir(d);
    rmdir(f->dir);
    free(f);
    return 0;
}

void sfx_ok(enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK)
        fail_msg("%s", err->msg);
}

sqlite3 *sfx_open(const struct sfx *f)
{
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof(path), "%s/state.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

void sfx_exec(sqlite3 *db, const char *sql)
{
    char *msg = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s: %s", sql, msg);
}

const char *sfx_query(const struct sfx *f, const char *sql)
{
    static char out[256];
    sqlite3 *db = sfx_open(f);
    sqlite3_stmt *s;
    const unsigned char *text;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    if (sqlite3_step(s) == SQLITE_ROW) {
        text = sqlite3_column_text(s, 0);
        snprintf(out, sizeof(out), "%s", text == NULL ? "NULL" : (const char *)text);
    } else {
        strcpy(out, "(none)");
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return out;
}

int64_t sfx_token(struct sfx *f, const char *project, unsigned scopes, int64_t expires,
                  char out[STATE_TOKEN_TEXT])
{
    struct otl_error err = {0};
    int64_t id = 0;

    sfx_ok(state_token_create(f->st, project, scopes, "a note", expires, out, &id, &err), &err);
    return id;
}
