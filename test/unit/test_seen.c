/* state.db: what was seen of services and metrics, and the views over it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state_fixture.h"

struct seen_batch {
    struct batch b;
    struct batch_resource resources[1];
    struct batch_scope scopes[2];
    struct batch_metric metrics[2];
};

static void seen_batch_fill(struct seen_batch *s, const char *service)
{
    memset(s, 0, sizeof(*s));
    s->resources[0].service_name = bytes_str(service);
    s->metrics[0] = (struct batch_metric){.type = METRIC_SUM,
                                          .temporality = TEMPORALITY_CUMULATIVE,
                                          .is_monotonic = true,
                                          .name = bytes_str("requests"),
                                          .unit = bytes_str("1"),
                                          .description = bytes_str("short")};
    s->metrics[1] = (struct batch_metric){.scope = 1,
                                          .type = METRIC_GAUGE,
                                          .name = bytes_str("load"),
                                          .unit = bytes_str(""),
                                          .description = bytes_str("")};
    s->b.resources = s->resources;
    s->b.scopes = s->scopes;
    s->b.metrics = s->metrics;
    s->b.n_resources = 1;
    s->b.n_scopes = 2;
    s->b.n_metrics = 2;
}

static void note_ok(struct sfx *f, const struct seen_batch *s)
{
    struct otl_error err = {0};

    sfx_ok(state_note_batch(f->st, STATE_DEFAULT_PROJECT, &s->b, &err), &err);
}

/* The number of changes this connection ever made: equal before and after means nothing written. */
static int changes(struct sfx *f)
{
    return sqlite3_total_changes(f->st->db.sql);
}

/* Times relative to SFX_T0. */
static const char *requests_row(struct sfx *f)
{
    return sfx_query(f, "SELECT service_name || ' ' || name || ' ' || type || ' ' || unit || ' ' ||"
                        " temporality || ' ' || is_monotonic || ' ' || description || ' ' ||"
                        " (first_seen - 1767323045000000000) || ' ' ||"
                        " (last_seen - 1767323045000000000)"
                        " FROM seen_metric WHERE name = 'requests'");
}

static void first_batch_is_in_the_file_when_the_call_returns(void **state)
{
    struct sfx *f = *state;
    struct seen_batch s;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 0");
    assert_string_equal(sfx_query(f, "SELECT name || ' ' || (first_seen = last_seen) FROM service"),
                        "shop 1");
    assert_string_equal(sfx_query(f, "SELECT type || ' [' || unit || '] ' || temporality ||"
                                     " is_monotonic FROM seen_metric WHERE name = 'load'"),
                        "gauge [] none0");
}

/* Notes may be less durable than tokens, but are committed all the same, and tokens stay synced. */
static void lazy_notes_are_committed_and_leave_the_rest_synced(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    int64_t v = 0;

    state_sync_notes(f->st, false);
    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 0");
    sfx_ok(db_query_int(&f->st->db, "PRAGMA synchronous", &v, &err), &err);
    assert_int_equal(v, 2); /* FULL */
}

static void steady_state_writes_nothing(void **state)
{
    struct sfx *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    before = changes(f);
    note_ok(f, &s);
    sfx_now = SFX_T0 + 60 * NS_PER_S - 1;
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
}

static void last_seen_follows_when_a_minute_behind(void **state)
{
    struct sfx *f = *state;
    struct seen_batch s;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    sfx_now = SFX_T0 + 60 * NS_PER_S;
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 60000000000");
    assert_string_equal(sfx_query(f, "SELECT (last_seen - first_seen) / 1000000000 FROM service"),
                        "60");
    /* A clock that goes back takes nothing away. */
    sfx_now = SFX_T0 - 100 * NS_PER_S;
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 60000000000");
}

static void longer_description_wins_and_shorter_changes_nothing(void **state)
{
    struct sfx *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    s.metrics[0].description = bytes_str("a longer one");
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 a longer one 0 0");
    before = changes(f);
    s.metrics[0].description = bytes_str("short");
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 a longer one 0 0");
}

static void another_unit_or_type_is_a_row_of_its_own(void **state)
{
    struct sfx *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    s.metrics[1] = s.metrics[0];
    s.metrics[1].unit = bytes_str("By");
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric WHERE name = 'requests'"),
                        "2");
    before = changes(f);
    note_ok(f, &s); /* two units in one batch must not rewrite a row each time */
    assert_int_equal(changes(f), before);
    s.metrics[1].type = METRIC_HISTOGRAM;
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric WHERE name = 'requests'"),
                        "3");
}

static void projects_and_services_are_kept_apart(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct otl_error err = {0};
    struct seen_batch s;
    int64_t project = 0;

    sfx_token(f, "shop", SCOPE_WRITE, 0, text);
    sfx_ok(state_project(f->st, "shop", &project, &err), &err);
    seen_batch_fill(&s, "a");
    note_ok(f, &s);
    seen_batch_fill(&s, "b");
    note_ok(f, &s);
    sfx_ok(state_note_batch(f->st, project, &s.b, &err), &err);
    assert_string_equal(sfx_query(f, "SELECT group_concat(project_id || name) FROM"
                                     " (SELECT * FROM service ORDER BY project_id, name)"),
                        "1a,1b,2b");
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "6");
}

static void names_with_nul_bytes_and_empty_services_are_kept_whole(void **state)
{
    struct sfx *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "");
    s.metrics[0].name = bytes_of("a\0b", 3);
    s.metrics[1].name = bytes_of("a\0c", 3);
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(DISTINCT hex(name)) FROM seen_metric"), "2");
    assert_string_equal(sfx_query(f, "SELECT hex(max(name)) FROM seen_metric"), "610063");
    state_close(f->st);
    f->st = NULL;
    sfx_ok(state_open(f->dir, &f->st, NULL), &(struct otl_error){0});
    before = changes(f);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
}

static void what_the_file_has_is_known_after_a_restart(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    state_close(f->st);
    f->st = NULL;
    sfx_ok(state_open(f->dir, &f->st, &err), &err);
    before = changes(f);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
}

static void many_metrics_fit(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    struct batch_metric *metrics = calloc(1000, sizeof(*metrics));
    char(*names)[16] = calloc(1000, sizeof(*names));
    int before;

    assert_non_null(metrics);
    assert_non_null(names);
    seen_batch_fill(&s, "shop");
    for (int i = 0; i < 1000; i++) {
        metrics[i] = s.metrics[1];
        snprintf(names[i], sizeof(names[i]), "m%d", i);
        metrics[i].name = bytes_str(names[i]);
    }
    s.b.metrics = metrics;
    s.b.n_metrics = 1000;
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "1000");
    before = changes(f);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
    sfx_ok(state_reload(f->st, &err), &err);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
    free(metrics);
    free(names);
}

static void a_row_deleted_by_others_comes_back_after_refresh(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = sfx_open(f);

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    sfx_exec(db, "DELETE FROM seen_metric");
    sfx_ok(state_refresh(f->st, &err), &err);
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "2");
    sqlite3_close(db);
}

static void failed_insert_leaves_neither_file_nor_map_changed(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = sfx_open(f);

    sfx_exec(db, "CREATE TRIGGER no BEFORE INSERT ON seen_metric WHEN new.name = 'load'"
                 " BEGIN SELECT raise(ABORT, 'refused by the test'); END");
    seen_batch_fill(&s, "shop");
    assert_int_not_equal(state_note_batch(f->st, 1, &s.b, &err), OTL_OK);
    assert_non_null(strstr(err.msg, "refused by the test"));
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "0");
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM service"), "0");
    assert_int_equal(f->st->seen.n, 0);
    sfx_exec(db, "DROP TRIGGER no");
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "2");
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM service"), "1");
    sqlite3_close(db);
}

static void failed_commit_leaves_neither_file_nor_map_changed(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = sfx_open(f);

    /* A deferred foreign key: every statement passes, only COMMIT refuses. */
    sfx_exec(db, "CREATE TABLE parent (id INTEGER PRIMARY KEY);"
                 "CREATE TABLE child (id REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED);"
                 "CREATE TRIGGER later AFTER INSERT ON seen_metric"
                 " BEGIN INSERT INTO child VALUES (1); END");
    seen_batch_fill(&s, "shop");
    assert_int_not_equal(state_note_batch(f->st, 1, &s.b, &err), OTL_OK);
    assert_non_null(strstr(err.msg, "FOREIGN KEY"));
    assert_int_equal(f->st->seen.n, 0);
    assert_int_equal(sqlite3_get_autocommit(f->st->db.sql), 1);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "0");
    sfx_exec(db, "DROP TRIGGER later");
    note_ok(f, &s);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM seen_metric"), "2");
    assert_int_equal(f->st->seen.n, 3);
    sqlite3_close(db);
}

static void a_locked_file_fails_new_metrics_but_not_a_stale_last_seen(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = sfx_open(f);

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    f->st->wait_ms = 0;
    sfx_now = SFX_T0 + 61 * NS_PER_S;
    sfx_exec(db, "BEGIN IMMEDIATE");
    note_ok(f, &s);
    assert_true(f->st->touch_after_ns > 0);
    s.metrics[0].name = bytes_str("requests2");
    assert_int_equal(state_note_batch(f->st, 1, &s.b, &err), OTL_ELOCKED);
    s.metrics[0].name = bytes_str("requests");
    sfx_exec(db, "ROLLBACK");
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 0");
    f->st->touch_after_ns = 0; /* as if its second had passed */
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 61000000000");
    sqlite3_close(db);
}

static void views_are_for_people(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct seen_batch s;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    sfx_token(f, "default", SCOPE_WRITE, 0, text);
    assert_string_equal(sfx_query(f, "SELECT project || '|' || service_name || '|' || first_seen ||"
                                     " '|' || metrics FROM services"),
                        "default|shop|2026-01-02 03:04:05|2");
    assert_string_equal(sfx_query(f,
                                  "SELECT project || '|' || type || '|' || last_seen FROM metrics"
                                  " WHERE metric = 'load'"),
                        "default|gauge|2026-01-02 03:04:05");
    assert_string_equal(sfx_query(f, "SELECT project || scopes || note || created ||"
                                     " ifnull(expires, '-') || ifnull(revoked, '-') FROM tokens"),
                        "defaultwritea note2026-01-02 03:04:05--");
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, sfx_setup, sfx_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(first_batch_is_in_the_file_when_the_call_returns),
        CASE(lazy_notes_are_committed_and_leave_the_rest_synced),
        CASE(steady_state_writes_nothing),
        CASE(last_seen_follows_when_a_minute_behind),
        CASE(longer_description_wins_and_shorter_changes_nothing),
        CASE(another_unit_or_type_is_a_row_of_its_own),
        CASE(projects_and_services_are_kept_apart),
        CASE(names_with_nul_bytes_and_empty_services_are_kept_whole),
        CASE(what_the_file_has_is_known_after_a_restart),
        CASE(many_metrics_fit),
        CASE(a_row_deleted_by_others_comes_back_after_refresh),
        CASE(failed_insert_leaves_neither_file_nor_map_changed),
        CASE(failed_commit_leaves_neither_file_nor_map_changed),
        CASE(a_locked_file_fails_new_metrics_but_not_a_stale_last_seen),
        CASE(views_are_for_people),
    };

    return cmocka_run_group_tests_name("seen", tests, NULL, NULL);
}
