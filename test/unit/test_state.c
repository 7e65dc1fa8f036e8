/* state.db: the file itself, tokens and projects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "state_fixture.h"

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

    sfx_token(*state, "default", SCOPE_WRITE, 0, a);
    sfx_token(*state, "default", SCOPE_WRITE, 0, b);
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
    struct sfx *f = *state;
    static const char *const files[] = {"state.db", "state.db-wal"};
    char text[STATE_TOKEN_TEXT], path[128], hex[65], sql[200];
    uint8_t hash[32];
    size_t seen = 0;

    sfx_token(f, "default", SCOPE_WRITE, 0, text);
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
    assert_string_equal(sfx_query(f, sql), "1");
}

static void auth_gives_the_project_and_the_scopes(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p = {0};
    struct otl_error err = {0};
    int64_t project = 0;

    sfx_token(f, "shop", SCOPE_WRITE | SCOPE_READ, 0, text);
    sfx_ok(state_project(f->st, "shop", &project, &err), &err);
    assert_int_not_equal(project, STATE_DEFAULT_PROJECT);
    sfx_ok(auth(f->st, text, SCOPE_READ, &p, &err), &err);
    assert_int_equal(p.project_id, project);
    assert_int_equal(p.scopes, SCOPE_WRITE | SCOPE_READ);
}

static void auth_refuses_a_missing_scope_and_names_it(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p = {.project_id = 77};
    struct otl_error err = {0};

    sfx_token(f, "default", SCOPE_READ, 0, text);
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EFORBIDDEN);
    assert_string_equal(err.msg, "token 1 has the scope read; this needs write");
    assert_int_equal(p.project_id, 77);
    assert_int_equal(auth(f->st, text, SCOPE_ADMIN, &p, &err), OTL_EFORBIDDEN);
}

static void admin_implies_every_scope(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};

    sfx_token(f, "default", SCOPE_ADMIN, 0, text);
    sfx_ok(auth(f->st, text, SCOPE_WRITE, &p, &err), &err);
    sfx_ok(auth(f->st, text, SCOPE_READ, &p, &err), &err);
    sfx_ok(auth(f->st, text, SCOPE_ADMIN, &p, &err), &err);
}

static void auth_refuses_what_is_no_token(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT], longer[600];
    struct principal p;
    struct otl_error err = {0};

    sfx_token(f, "default", SCOPE_ADMIN, 0, text);
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
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};

    sfx_token(f, "default", SCOPE_WRITE, SFX_T0 + 10, text);
    sfx_now = SFX_T0 + 9;
    sfx_ok(auth(f->st, text, SCOPE_WRITE, &p, &err), &err);
    sfx_now = SFX_T0 + 10;
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    assert_non_null(strstr(err.msg, "has expired"));
    assert_null(strstr(err.msg, text + 4));
    /* It still counts: a daemon must not become open because its last token ran out. */
    assert_int_equal(state_token_count(f->st), 1);
}

static void revoked_token_is_refused_at_once_in_the_same_state(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};
    int64_t id = sfx_token(f, "default", SCOPE_WRITE, 0, text);

    sfx_ok(state_token_revoke(f->st, id, &err), &err);
    assert_int_equal(auth(f->st, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    assert_int_equal(state_token_count(f->st), 0);
}

static void another_open_state_sees_changes_after_refresh(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};
    struct state *daemon = NULL;
    int64_t id;

    sfx_ok(state_open(f->dir, &daemon, &err), &err);
    assert_int_equal(state_token_count(daemon), 0);
    id = sfx_token(f, "default", SCOPE_WRITE, 0, text);
    assert_int_equal(auth(daemon, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    sfx_ok(state_refresh(daemon, &err), &err);
    sfx_ok(auth(daemon, text, SCOPE_WRITE, &p, &err), &err);
    sfx_ok(state_token_revoke(f->st, id, &err), &err);
    sfx_ok(state_refresh(daemon, &err), &err);
    assert_int_equal(auth(daemon, text, SCOPE_WRITE, &p, &err), OTL_EAUTH);
    state_close(daemon);
}

static void reload_reads_tokens_anew(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};
    struct state *daemon = NULL;

    sfx_ok(state_open(f->dir, &daemon, &err), &err);
    sfx_token(f, "default", SCOPE_WRITE, 0, text);
    sfx_ok(state_reload(daemon, &err), &err);
    sfx_ok(auth(daemon, text, SCOPE_WRITE, &p, &err), &err);
    state_close(daemon);
}

static void tokens_survive_closing(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct principal p;
    struct otl_error err = {0};

    sfx_token(f, "default", SCOPE_WRITE, 0, text);
    state_close(f->st);
    f->st = NULL;
    sfx_ok(state_open(f->dir, &f->st, &err), &err);
    sfx_ok(auth(f->st, text, SCOPE_WRITE, &p, &err), &err);
}

static void revoking_twice_keeps_the_first_time_and_unknown_ids_are_named(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT], want[32];
    struct otl_error err = {0};
    int64_t id = sfx_token(f, "default", SCOPE_WRITE, 0, text);

    sfx_ok(state_token_revoke(f->st, id, &err), &err);
    sfx_now += NS_PER_S;
    sfx_ok(state_token_revoke(f->st, id, &err), &err);
    snprintf(want, sizeof(want), "%lld", (long long)SFX_T0);
    assert_string_equal(sfx_query(f, "SELECT revoked FROM token"), want);
    assert_int_equal(state_token_revoke(f->st, 99, &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "99"));
}

static void collect(void *arg, const struct token_info *t)
{
    char *out = arg, scopes[24];

    scopes_text(t->scopes, scopes);
    sprintf(out + strlen(out), "%lld %s %s '%s' %lld %lld %d\n", (long long)t->id, t->project,
            scopes, t->note, (long long)(t->created_ns - SFX_T0),
            (long long)(t->expires_ns == 0 ? 0 : t->expires_ns - SFX_T0), t->revoked_ns != 0);
}

static void list_gives_every_token_oldest_first(void **state)
{
    struct sfx *f = *state;
    char a[STATE_TOKEN_TEXT], b[STATE_TOKEN_TEXT], out[512] = "";
    struct otl_error err = {0};

    sfx_token(f, "default", SCOPE_WRITE, 0, a);
    sfx_now += 5;
    sfx_token(f, "shop", SCOPE_READ | SCOPE_WRITE, SFX_T0 + 100, b);
    sfx_ok(state_token_revoke(f->st, 1, &err), &err);
    sfx_ok(state_token_list(f->st, collect, out, &err), &err);
    assert_string_equal(out, "1 default write 'a note' 0 0 1\n"
                             "2 shop read,write 'a note' 5 100 0\n");
}

static void create_refuses_what_makes_no_sense(void **state)
{
    struct sfx *f = *state;
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
    assert_int_equal(state_token_create(f->st, "p", SCOPE_READ, "", SFX_T0, out, &id, &err),
                     OTL_EBADREQUEST);
    assert_string_equal(out, "unchanged");
    assert_int_equal(id, -7);
    assert_string_equal(sfx_query(f, "SELECT count(*) FROM token"), "0");
    longer[100] = '\0';
    sfx_ok(state_token_create(f->st, longer, SCOPE_READ, "", 0, out, &id, &err), &err);
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
    struct sfx *f = *state;
    struct otl_error err = {0};
    int64_t id = 0;

    sfx_ok(state_project(f->st, "default", &id, &err), &err);
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
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT], other[STATE_TOKEN_TEXT];
    struct auth_loop loop = {.st = f->st, .token = text};
    struct otl_error err = {0};
    pthread_t t[2];

    sfx_token(f, "default", SCOPE_WRITE, 0, text);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, auth_loop, &loop), 0);
    for (int i = 0; i < 20; i++) {
        int64_t id = sfx_token(f, "other", SCOPE_READ, 0, other);

        sfx_ok(state_token_revoke(f->st, id, &err), &err);
        sfx_ok(state_reload(f->st, &err), &err);
    }
    atomic_store(&loop.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert_false(atomic_load(&loop.failed));
}

/* ---- the file ---- */

static void pragmas_took(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    int64_t v = 0;

    sfx_ok(db_query_int(&f->st->db, "PRAGMA synchronous", &v, &err), &err);
    assert_int_equal(v, 2); /* FULL */
    sfx_ok(db_query_int(&f->st->db, "PRAGMA foreign_keys", &v, &err), &err);
    assert_int_equal(v, 1);
    assert_string_equal(sfx_query(f, "PRAGMA journal_mode"), "wal");
    assert_string_equal(sfx_query(f, "PRAGMA auto_vacuum"), "2");             /* incremental */
    assert_string_equal(sfx_query(f, "PRAGMA application_id"), "1869900915"); /* 0x6f746c73 */
    assert_string_equal(sfx_query(f, "PRAGMA integrity_check"), "ok");
}

static void newer_file_is_refused(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct state *again = NULL;
    sqlite3 *db = sfx_open(f);

    sfx_exec(db, "PRAGMA user_version = 999");
    sqlite3_close(db);
    assert_int_not_equal(state_open(f->dir, &again, &err), OTL_OK);
    assert_null(again);
    assert_non_null(strstr(err.msg, "newer"));
}

static void missing_parent_directory_is_named(void **state)
{
    struct sfx *f = *state;
    struct otl_error err = {0};
    struct state *again = NULL;
    char dir[128];

    snprintf(dir, sizeof(dir), "%s/no/such", f->dir);
    assert_int_equal(state_open(dir, &again, &err), OTL_ESYSTEM);
    assert_non_null(strstr(err.msg, dir));
}

static void a_process_that_holds_the_lock_makes_writes_fail_as_locked(void **state)
{
    struct sfx *f = *state;
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
    sfx_ok(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err), &err);
    fclose(lock);
}

static void a_sqlite_shell_that_holds_a_transaction_makes_writes_fail_as_locked(void **state)
{
    struct sfx *f = *state;
    char text[STATE_TOKEN_TEXT];
    struct otl_error err = {0};
    int64_t id;
    sqlite3 *db = sfx_open(f);

    sfx_exec(db, "BEGIN IMMEDIATE");
    f->st->wait_ms = 0;
    assert_int_equal(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err),
                     OTL_ELOCKED);
    sfx_exec(db, "ROLLBACK");
    sfx_ok(state_token_create(f->st, "p", SCOPE_READ, "", 0, text, &id, &err), &err);
    sqlite3_close(db);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, sfx_setup, sfx_teardown)

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
    };

    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
