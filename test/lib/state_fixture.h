/* state_fixture.h -- an open state.db in a directory of its own, with a clock that the test sets.
 */
#ifndef STATE_FIXTURE_H
#define STATE_FIXTURE_H

#include <sqlite3.h>
#include <stdint.h>

#include "otlite/clock.h"
#include "otlite/state.h"
#include "state/state_internal.h"

/* 2026-01-02T03:04:05Z, where every test begins. */
#define SFX_T0 (INT64_C(1767323045) * NS_PER_S)

/* What the wall clock shows. */
extern int64_t sfx_now;

struct sfx {
    char dir[64];
    struct state *st;
};

/* For cmocka; *state is a struct sfx. */
int sfx_setup(void **state);
int sfx_teardown(void **state);

/* Fails the test with err's message unless rc is OTL_OK. */
void sfx_ok(enum otl_err rc, const struct otl_error *err);

/* A second look at the file, as another program has it. */
sqlite3 *sfx_open(const struct sfx *f);
void sfx_exec(sqlite3 *db, const char *sql);
/* The first column of the first row as text, good until the next call; "(none)" without a row. */
const char *sfx_query(const struct sfx *f, const char *sql);

/* A new token of a project, with the note "a note"; its id is returned, its text is in out. */
int64_t sfx_token(struct sfx *f, const char *project, unsigned scopes, int64_t expires,
                  char out[STATE_TOKEN_TEXT]);

#endif
