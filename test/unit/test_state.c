/* state.db: tokens, projects, the catalogue of what was seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/clock.h"
#include "otlite/state.h"

#include "state/state_internal.h"

/* 2026-01-02T03:04:05Z */
#define T0 (INT64_C(1767323045) * NS_PER_S)

static int64_t fake_now;

static int64_t fake_wall(void)
{
    return fake_now;
}

struct fixture {
    char dir[64];
    struct state *st;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct otl_error err = {0};

    assert_non_null(f);
    strcpy(f->dir, "/tmp/otlite-state-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    fake_now = T0;
    clock_set_wall(fake_wall);
    if (state_open(f->dir, &f->st, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
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

static void ok(enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK)
        fail_msg("%s", err->msg);
}

/* A second look at the file, as another program has it. */
static sqlite3 *other_open(const struct fixture *f)
{
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof(path), "%s/state.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void other_exec(sqlite3 *db, const char *sql)
{
    char *msg = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s: %s", sql, msg);
}

/* The first column of the first row as text; "(none)" without a row. */
static const char *query(const struct fixture *f, const char *sql)
{
    static char out[256];
    sqlite3 *db = other_open(f);
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

static int64_t make_token(struct fixture *f, const char *project, unsigned scopes, int64_t expires,
                          char out[STATE_TOKEN_TEXT])
{
    struct otl_error err = {0};
    int64_t id = 0;

    ok(state_token_create(f->st, project, scopes, "a note", expires, out, &id, &err), &err);
    return id;
}

static enum otl_err auth(struct state *st, const char *token, enum scope need, struct principal *p,
                         struct otl_error *err)
{
    return state_auth(st, bytes_str(token), need, p, err);
}

/* ---- tokens ---- */

static void token_text_has_prefix_and_43_url_safe_characters(void **state)
{
    char a[STATE_TOKEN_TEXT], b[STATE_TOKEN_TEXT];
    uint8_t raw[64];
    size_t n = 0;

    make_token(*state, "default", SCOPE_WRITE, 0, a);
    make_token(*state, "default", SCOPE_WRITE, 0, b);
    assert_int_equal(strlen(a), 47);
    assert_memory_equal(a, "otl_", 4);
    assert_int_equal(strspn(a + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                   "-_"),
                     43);
    assert_true(base64_decode(bytes_str(a + 4), raw, &n));
    assert_int_equal(n, 32);
    assert_string_not_equal(a, b);
}

static void file_holds_the_sha256_and_never_the_text(void **state)
{
    struct fixture *f = *state;
    static const char *const files[] = {"state.db", "state.db-wal"};
    char text[STATE_TOKEN_TEXT], path[128], hex[65], sql[200];
    uint8_t hash[32];
    size_t seen = 0;

    make_token(f, "default", SCOPE_WRITE, 0, text);
    for (size_t i = 0; i < 2; i++) {
        FILE *file;
        char *content;
        size_t n;

        snprintf(path, sizeof(path), "%s/%s", f->dir, files[i]);
        file = fopen(path, "rb");
        assert_non_null(file);
        content = malloc(1 << 22);
        assert_non_null(content);
        n = fread(content, 1, 1 << 22, file);
        fclose(file);
        seen += n;
        assert_null(memmem(content, n, text, strlen(text)));
        assert_null(memmem(content, n, text + 4, 16));
        free(content);
    }
    assert_true(seen > 4096);
    assert_int_equal(EVP_Digest(text, strlen(text), hash, NULL, EVP_sha256(), NULL), 1);
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02X", hash[i]);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM token WHERE hex(hash) = '%s'", hex);
    assert_string_equal(query(f, sql), "1");
}

static void auth_gives_the_project_and_the_scopes(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p = {0};
    struct otl_error err = {0};
    int64_t project = 0;

    make_token(f, "shop", SCOPE_WRITE | SCOPE_READ, 0, text);
    ok(state_project(f->st, "shop", &project, &err), &err);
    assert_int_not_equal(project, STATE_DEFAULT_PROJECT);
    ok(auth(f->st, text, SCOPE_READ, &p, &err), &err);
    assert_int_equal(p.project_id, project);
    assert_int_equal(p.scopes, SCOPE_WRITE | SCOPE_READ);
}

static void auth_refuses_a_missing_scope_and_names_it(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p = {.project_id = 77};
    struct otl_error err = {0};

    make_token(f, "default", SCOPE_READ, 0, text);
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EFORBIDDEN);
    assert_string_equal(err.msg, "token 1 has the scope read; this needs write");
    assert_int_equal(p.project_id, 77);
    assert_int_equal(auth(f->st, text, SCOPE_ADMIN, &p, &err), OTL_EFORBIDDEN);
}

static void admin_implies_every_scope(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};

    make_token(f, "default", SCOPE_ADMIN, 0, text);
    ok(auth(f->st, text, SCOPE_WRITE, &p, &err), &err);
    ok(auth(f->st, text, SCOPE_READ, &p, &err), &err);
    ok(auth(f->st, text, SCOPE_ADMIN, &p, &err), &err);
}

static void auth_refuses_what_is_no_token(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT], longer[600];
    struct principal p;
    struct otl_error err = {0};

    make_token(f, "default", SCOPE_ADMIN, 0, text);
    assert_int_equal(auth(f->st, "", SCOPE_WRITE, &p, &err), OTL_EAUTH);
    assert_int_equal(auth(f->st, "otl_", SCOPE_WRITE, &p, &err), OTL_EAUTH);
    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(auth(f->st, longer, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    for (size_t n = 0; n < strlen(text); n++)
        assert_int_equal(state_auth(f->st, bytes_of(text, n), SCOPE_WRITE, &p, &err), OTL_EAUTH);
    text[20] = text[20] == 'a' ? 'b' : 'a';
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    assert_null(strstr(err.msg, text));
}

static void expired_token_is_refused_saying_so_without_echo(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};

    make_token(f, "default", SCOPE_WRITE, T0 + 10, text);
    fake_now = T0 + 9;
    ok(auth(f->st, text, SCOPE_WRITE, &p, &err), &err);
    fake_now = T0 + 10;
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    assert_non_null(strstr(err.msg, "has expired"));
    assert_null(strstr(err.msg, text + 4));
    /* It still counts: a daemon must not become open because its last token ran out. */
    assert_int_equal(state_token_count(f->st), 1);
}

static void revoked_token_is_refused_at_once_in_the_same_state(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};
    int64_t id = make_token(f, "default", SCOPE_WRITE, 0, text);

    ok(state_token_revoke(f->st, id, &err), &err);
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    assert_int_equal(state_token_count(f->st), 0);
}

static void another_open_state_sees_changes_after_refresh(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};
    struct state *daemon = NULL;
    int64_t id;

    ok(state_open(f->dir, &daemon, &err), &err);
    assert_int_equal(state_token_count(daemon), 0);
    id = make_token(f, "default", SCOPE_WRITE, 0, text);
    assert_int_equal(auth(daemon, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    ok(state_refresh(daemon, &err), &err);
    ok(auth(daemon, text, SCOPE_WRITE, &p, &err), &err);
    ok(state_token_revoke(f->st, id, &err), &err);
    ok(state_refresh(daemon, &err), &err);
    assert_int_equal(auth(daemon, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    state_close(daemon);
}

static void reload_reads_tokens_anew(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};
    struct state *daemon = NULL;

    ok(state_open(f->dir, &daemon, &err), &err);
    make_token(f, "default", SCOPE_WRITE, 0, text);
    ok(state_reload(daemon, &err), &err);
    ok(auth(daemon, text, SCOPE_WRITE, &p, &err), &err);
    state_close(daemon);
}

static void tokens_survive_closing(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};

    make_token(f, "default", SCOPE_WRITE, 0, text);
    state_close(f->st);
    f->st = NULL;
    ok(state_open(f->dir, &f->st, &err), &err);
    ok(auth(f->st, text, SCOPE_WRITE, &p, &err), &err);
}

static void revoking_twice_keeps_the_first_time_and_unknown_ids_are_named(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT], want[32];
    struct otl_error err = {0};
    int64_t id = make_token(f, "default", SCOPE_WRITE, 0, text);

    ok(state_token_revoke(f->st, id, &err), &err);
    fake_now += NS_PER_S;
    ok(state_token_revoke(f->st, id, &err), &err);
    snprintf(want, sizeof(want), "%lld", (long long)T0);
    assert_string_equal(query(f, "SELECT revoked FROM token"), want);
    assert_int_equal(state_token_revoke(f->st, 99, &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "99"));
}

static void collect(void *arg, const struct token_info *t)
{
    char *out = arg, scopes[24];

    scopes_text(t->scopes, scopes);
    sprintf(out + strlen(out), "%lld %s %s '%s' %lld %lld %d\n", (long long)t->id, t->project,
            scopes, t->note, (long long)(t->created_ns - T0),
            (long long)(t->expires_ns == 0 ? 0 : t->expires_ns - T0), t->revoked_ns != 0);
}

static void list_gives_every_token_oldest_first(void **state)
{
    struct fixture *f = *state;
    char a[STATE_TOKEN_TEXT], b[STATE_TOKEN_TEXT], out[512] = "";
    struct otl_error err = {0};

    make_token(f, "default", SCOPE_WRITE, 0, a);
    fake_now += 5;
    make_token(f, "shop", SCOPE_READ | SCOPE_WRITE, T0 + 100, b);
    ok(state_token_revoke(f->st, 1, &err), &err);
    ok(state_token_list(f->st, collect, out, &err), &err);
    assert_string_equal(out, "1 default write 'a note' 0 0 1\n"
                             "2 shop read,write 'a note' 5 100 0\n");
}

static void create_refuses_what_makes_no_sense(void **state)
{
    struct fixture *f = *state;
    char out[STATE_TOKEN_TEXT] = "unchanged", longer[102];
    struct otl_error err = {0};
    int64_t id = -7;

    memset(longer, 'p', 101);
    longer[101] = '\0';
    assert_int_equal(state_token_create(f->st, "", SCOPE_READ, "", 0, out, &id, &err),
                     OTL_EBADREQUEST);
    assert_int_equal(state_token_create(f->st, longer, SCOPE_READ, "", 0, out, &id, &err),
                     OTL_EBADREQUEST);
    assert_int_equal(state_token_create(f->st, "a\nb", SCOPE_READ, "", 0, out, &id, &err),
                     OTL_EBADREQUEST);
    assert_int_equal(state_token_create(f->st, "\xff", SCOPE_READ, "", 0, out, &id, &err),
                     OTL_EBADREQUEST);
    assert_int_equal(state_token_create(f->st, "p", 0, "", 0, out, &id, &err), OTL_EBADREQUEST);
    assert_int_equal(state_token_create(f->st, "p", 8, "", 0, out, &id, &err), OTL_EBADREQUEST);
    assert_int_equal(state_token_create(f->st, "p", SCOPE_READ, "", T0, out, &id, &err),
                     OTL_EBADREQUEST);
    assert_string_equal(out, "unchanged");
    assert_int_equal(id, -7);
    assert_string_equal(query(f, "SELECT count(*) FROM token"), "0");
    longer[100] = '\0';
    ok(state_token_create(f->st, longer, SCOPE_READ, "", 0, out, &id, &err), &err);
}

static void scopes_are_read_and_written(void **state)
{
    char out[24];

    (void)state;
    assert_int_equal(scopes_parse("write"), SCOPE_WRITE);
    assert_int_equal(scopes_parse("read,admin,write"), SCOPE_READ | SCOPE_ADMIN | SCOPE_WRITE);
    assert_int_equal(scopes_parse(""), 0);
    assert_int_equal(scopes_parse("write,"), 0);
    assert_int_equal(scopes_parse("write read"), 0);
    assert_int_equal(scopes_parse("Write"), 0);
    scopes_text(SCOPE_WRITE | SCOPE_READ | SCOPE_ADMIN, out);
    assert_string_equal(out, "read,write,admin");
    scopes_text(0, out);
    assert_string_equal(out, "");
}

static void default_project_is_1_and_unknown_ones_are_named(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    int64_t id = 0;

    ok(state_project(f->st, "default", &id, &err), &err);
    assert_int_equal(id, 1);
    assert_int_equal(state_project(f->st, "nope", &id, &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "nope"));
    assert_int_equal(id, 1);
}

struct auth_loop {
    struct state *st;
    const char *token;
    atomic_bool stop;
    atomic_bool failed;
};

static void *auth_loop(void *arg)
{
    struct auth_loop *l = arg;
    struct principal p;
    struct otl_error err;

    while (!atomic_load(&l->stop)) {
        if (auth(l->st, l->token, SCOPE_WRITE, &p, &err) != OTL_OK || p.project_id != 1)
            atomic_store(&l->failed, true);
    }
    return NULL;
}

static void event_loops_may_authenticate_while_tokens_change(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT], other[STATE_TOKEN_TEXT];
    struct auth_loop loop = {.st = f->st, .token = text};
    struct otl_error err = {0};
    pthread_t t[2];

    make_token(f, "default", SCOPE_WRITE, 0, text);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, auth_loop, &loop), 0);
    for (int i = 0; i < 20; i++) {
        int64_t id = make_token(f, "other", SCOPE_READ, 0, other);

        ok(state_token_revoke(f->st, id, &err), &err);
        ok(state_reload(f->st, &err), &err);
    }
    atomic_store(&loop.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert_false(atomic_load(&loop.failed));
}

/* ---- the file ---- */

static void pragmas_took(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    int64_t v = 0;

    ok(db_query_int(&f->st->db, "PRAGMA synchronous", &v, &err), &err);
    assert_int_equal(v, 2); /* FULL */
    ok(db_query_int(&f->st->db, "PRAGMA foreign_keys", &v, &err), &err);
    assert_int_equal(v, 1);
    assert_string_equal(query(f, "PRAGMA journal_mode"), "wal");
    assert_string_equal(query(f, "PRAGMA auto_vacuum"), "2");             /* incremental */
    assert_string_equal(query(f, "PRAGMA application_id"), "1869900915"); /* 0x6f746c73 */
    assert_string_equal(query(f, "PRAGMA integrity_check"), "ok");
}

static void newer_file_is_refused(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct state *again = NULL;
    sqlite3 *db = other_open(f);

    other_exec(db, "PRAGMA user_version = 999");
    sqlite3_close(db);
    assert_int_not_equal(state_open(f->dir, &again, &err), OTL_OK);
    assert_null(again);
    assert_non_null(strstr(err.msg, "newer"));
}

static void missing_parent_directory_is_named(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct state *again = NULL;
    char dir[128];

    snprintf(dir, sizeof(dir), "%s/no/such", f->dir);
    assert_int_equal(state_open(dir, &again, &err), OTL_ESYSTEM);
    assert_non_null(strstr(err.msg, dir));
}

static void a_process_that_holds_the_lock_makes_writes_fail_as_locked(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT], path[128];
    struct otl_error err = {0};
    int64_t id;
    FILE *lock;

    snprintf(path, sizeof(path), "%s/state.lock", f->dir);
    lock = fopen(path, "r+");
    assert_non_null(lock);
    assert_int_equal(flock(fileno(lock), LOCK_EX), 0);
    f->st->wait_ms = 0;
    assert_int_equal(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err),
                     OTL_ELOCKED);
    assert_int_equal(flock(fileno(lock), LOCK_UN), 0);
    ok(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err), &err);
    fclose(lock);
}

static void a_sqlite_shell_that_holds_a_transaction_makes_writes_fail_as_locked(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct otl_error err = {0};
    int64_t id;
    sqlite3 *db = other_open(f);

    other_exec(db, "BEGIN IMMEDIATE");
    f->st->wait_ms = 0;
    assert_int_equal(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err),
                     OTL_ELOCKED);
    other_exec(db, "ROLLBACK");
    ok(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err), &err);
    sqlite3_close(db);
}

/* ---- what was seen ---- */

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

static void note_ok(struct fixture *f, const struct seen_batch *s)
{
    struct otl_error err = {0};

    ok(state_note_batch(f->st, STATE_DEFAULT_PROJECT, &s->b, &err), &err);
}

/* The number of changes this connection ever made: equal before and after means nothing written. */
static int changes(struct fixture *f)
{
    return sqlite3_total_changes(f->st->db.sql);
}

/* Times relative to T0. */
static const char *requests_row(struct fixture *f)
{
    return query(f, "SELECT service_name || ' ' || name || ' ' || type || ' ' || unit || ' ' ||"
                    " temporality || ' ' || is_monotonic || ' ' || description || ' ' ||"
                    " (first_seen - 1767323045000000000) || ' ' ||"
                    " (last_seen - 1767323045000000000)"
                    " FROM seen_metric WHERE name = 'requests'");
}

static void first_batch_is_in_the_file_when_the_call_returns(void **state)
{
    struct fixture *f = *state;
    struct seen_batch s;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 0");
    assert_string_equal(query(f, "SELECT name || ' ' || (first_seen = last_seen) FROM service"),
                        "shop 1");
    assert_string_equal(query(f, "SELECT type || ' [' || unit || '] ' || temporality ||"
                                 " is_monotonic FROM seen_metric WHERE name = 'load'"),
                        "gauge [] none0");
}

static void steady_state_writes_nothing(void **state)
{
    struct fixture *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    before = changes(f);
    note_ok(f, &s);
    fake_now = T0 + 60 * NS_PER_S - 1;
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
}

static void last_seen_follows_when_a_minute_behind(void **state)
{
    struct fixture *f = *state;
    struct seen_batch s;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    fake_now = T0 + 60 * NS_PER_S;
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 60000000000");
    assert_string_equal(query(f, "SELECT (last_seen - first_seen) / 1000000000 FROM service"),
                        "60");
    /* A clock that goes back takes nothing away. */
    fake_now = T0 - 100 * NS_PER_S;
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 60000000000");
}

static void longer_description_wins_and_shorter_changes_nothing(void **state)
{
    struct fixture *f = *state;
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
    struct fixture *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    s.metrics[1] = s.metrics[0];
    s.metrics[1].unit = bytes_str("By");
    note_ok(f, &s);
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric WHERE name = 'requests'"), "2");
    before = changes(f);
    note_ok(f, &s); /* two units in one batch must not rewrite a row each time */
    assert_int_equal(changes(f), before);
    s.metrics[1].type = METRIC_HISTOGRAM;
    note_ok(f, &s);
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric WHERE name = 'requests'"), "3");
}

static void projects_and_services_are_kept_apart(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct otl_error err = {0};
    struct seen_batch s;
    int64_t project = 0;

    make_token(f, "shop", SCOPE_WRITE, 0, text);
    ok(state_project(f->st, "shop", &project, &err), &err);
    seen_batch_fill(&s, "a");
    note_ok(f, &s);
    seen_batch_fill(&s, "b");
    note_ok(f, &s);
    ok(state_note_batch(f->st, project, &s.b, &err), &err);
    assert_string_equal(query(f, "SELECT group_concat(project_id || name) FROM"
                                 " (SELECT * FROM service ORDER BY project_id, name)"),
                        "1a,1b,2b");
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "6");
}

static void names_with_nul_bytes_and_empty_services_are_kept_whole(void **state)
{
    struct fixture *f = *state;
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "");
    s.metrics[0].name = bytes_of("a\0b", 3);
    s.metrics[1].name = bytes_of("a\0c", 3);
    note_ok(f, &s);
    assert_string_equal(query(f, "SELECT count(DISTINCT hex(name)) FROM seen_metric"), "2");
    assert_string_equal(query(f, "SELECT hex(max(name)) FROM seen_metric"), "610063");
    state_close(f->st);
    f->st = NULL;
    ok(state_open(f->dir, &f->st, NULL), &(struct otl_error){0});
    before = changes(f);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
}

static void what_the_file_has_is_known_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    int before;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    state_close(f->st);
    f->st = NULL;
    ok(state_open(f->dir, &f->st, &err), &err);
    before = changes(f);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
}

static void many_metrics_fit(void **state)
{
    struct fixture *f = *state;
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
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "1000");
    before = changes(f);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
    ok(state_reload(f->st, &err), &err);
    note_ok(f, &s);
    assert_int_equal(changes(f), before);
    free(metrics);
    free(names);
}

static void a_row_deleted_by_others_comes_back_after_refresh(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = other_open(f);

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    other_exec(db, "DELETE FROM seen_metric");
    ok(state_refresh(f->st, &err), &err);
    note_ok(f, &s);
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "2");
    sqlite3_close(db);
}

static void failed_insert_leaves_neither_file_nor_map_changed(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = other_open(f);

    other_exec(db, "CREATE TRIGGER no BEFORE INSERT ON seen_metric WHEN new.name = 'load'"
                   " BEGIN SELECT raise(ABORT, 'refused by the test'); END");
    seen_batch_fill(&s, "shop");
    assert_int_not_equal(state_note_batch(f->st, 1, &s.b, &err), OTL_OK);
    assert_non_null(strstr(err.msg, "refused by the test"));
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "0");
    assert_string_equal(query(f, "SELECT count(*) FROM service"), "0");
    assert_int_equal(f->st->seen.n, 0);
    other_exec(db, "DROP TRIGGER no");
    note_ok(f, &s);
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "2");
    assert_string_equal(query(f, "SELECT count(*) FROM service"), "1");
    sqlite3_close(db);
}

static void failed_commit_leaves_neither_file_nor_map_changed(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = other_open(f);

    /* A deferred foreign key: every statement passes, only COMMIT refuses. */
    other_exec(db, "CREATE TABLE parent (id INTEGER PRIMARY KEY);"
                   "CREATE TABLE child (id REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED);"
                   "CREATE TRIGGER later AFTER INSERT ON seen_metric"
                   " BEGIN INSERT INTO child VALUES (1); END");
    seen_batch_fill(&s, "shop");
    assert_int_not_equal(state_note_batch(f->st, 1, &s.b, &err), OTL_OK);
    assert_non_null(strstr(err.msg, "FOREIGN KEY"));
    assert_int_equal(f->st->seen.n, 0);
    assert_int_equal(sqlite3_get_autocommit(f->st->db.sql), 1);
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "0");
    other_exec(db, "DROP TRIGGER later");
    note_ok(f, &s);
    assert_string_equal(query(f, "SELECT count(*) FROM seen_metric"), "2");
    assert_int_equal(f->st->seen.n, 3);
    sqlite3_close(db);
}

static void a_locked_file_fails_new_metrics_but_not_a_stale_last_seen(void **state)
{
    struct fixture *f = *state;
    struct otl_error err = {0};
    struct seen_batch s;
    sqlite3 *db = other_open(f);

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    f->st->wait_ms = 0;
    fake_now = T0 + 61 * NS_PER_S;
    other_exec(db, "BEGIN IMMEDIATE");
    note_ok(f, &s);
    assert_true(f->st->touch_after_ns > 0);
    s.metrics[0].name = bytes_str("requests2");
    assert_int_equal(state_note_batch(f->st, 1, &s.b, &err), OTL_ELOCKED);
    s.metrics[0].name = bytes_str("requests");
    other_exec(db, "ROLLBACK");
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 0");
    f->st->touch_after_ns = 0; /* as if its second had passed */
    note_ok(f, &s);
    assert_string_equal(requests_row(f), "shop requests sum 1 cumulative 1 short 0 61000000000");
    sqlite3_close(db);
}

static void views_are_for_people(void **state)
{
    struct fixture *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct seen_batch s;

    seen_batch_fill(&s, "shop");
    note_ok(f, &s);
    make_token(f, "default", SCOPE_WRITE, 0, text);
    assert_string_equal(query(f, "SELECT project || '|' || service_name || '|' || first_seen ||"
                                 " '|' || metrics FROM services"),
                        "default|shop|2026-01-02 03:04:05|2");
    assert_string_equal(query(f, "SELECT project || '|' || type || '|' || last_seen FROM metrics"
                                 " WHERE metric = 'load'"),
                        "default|gauge|2026-01-02 03:04:05");
    assert_string_equal(query(f, "SELECT project || scopes || note || created ||"
                                 " ifnull(expires, '-') || ifnull(revoked, '-') FROM tokens"),
                        "defaultwritea note2026-01-02 03:04:05--");
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(token_text_has_prefix_and_43_url_safe_characters),
        CASE(file_holds_the_sha256_and_never_the_text),
        CASE(auth_gives_the_project_and_the_scopes),
        CASE(auth_refuses_a_missing_scope_and_names_it),
        CASE(admin_implies_every_scope),
        CASE(auth_refuses_what_is_no_token),
        CASE(expired_token_is_refused_saying_so_without_echo),
        CASE(revoked_token_is_refused_at_once_in_the_same_state),
        CASE(another_open_state_sees_changes_after_refresh),
        CASE(reload_reads_tokens_anew),
        CASE(tokens_survive_closing),
        CASE(revoking_twice_keeps_the_first_time_and_unknown_ids_are_named),
        CASE(list_gives_every_token_oldest_first),
        CASE(create_refuses_what_makes_no_sense),
        CASE(scopes_are_read_and_written),
        CASE(default_project_is_1_and_unknown_ones_are_named),
        CASE(event_loops_may_authenticate_while_tokens_change),
        CASE(pragmas_took),
        CASE(newer_file_is_refused),
        CASE(missing_parent_directory_is_named),
        CASE(a_process_that_holds_the_lock_makes_writes_fail_as_locked),
        CASE(a_sqlite_shell_that_holds_a_transaction_makes_writes_fail_as_locked),
        CASE(first_batch_is_in_the_file_when_the_call_returns),
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

    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
