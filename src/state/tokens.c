/* tokens.c -- tokens: made from 32 random bytes, kept as SHA-256, mirrored in memory.
 *
 * A fast hash is right here: the text has 256 random bits, so there is nothing to guess that a slow
 * hash would protect, and state_auth runs for each request. */
#include "state/state_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    TOKEN_RANDOM = 32,
    TOKEN_BASE64 = 43,     /* 32 bytes without padding */
    MAX_TOKEN_BYTES = 256, /* of a token that somebody sends */
    MAX_PROJECT_NAME = 100,
    MAX_NOTE = 500
};

#define TOKEN_PREFIX "otl_" /* lets secret scanners and people recognise one */

_Static_assert(sizeof(TOKEN_PREFIX) - 1 + TOKEN_BASE64 < STATE_TOKEN_TEXT, "token text");

/* --- scopes --- */

static const struct {
    const char *name;
    unsigned bit;
} scope_names[] = {{"read", SCOPE_READ}, {"write", SCOPE_WRITE}, {"admin", SCOPE_ADMIN}};

enum { N_SCOPES = sizeof(scope_names) / sizeof(scope_names[0]) };

unsigned scopes_parse(const char *s)
{
    unsigned scopes = 0;

    for (;;) {
        size_t n = strcspn(s, ",");
        unsigned bit = 0;

        for (size_t i = 0; i < N_SCOPES; i++) {
            if (strlen(scope_names[i].name) == n && memcmp(scope_names[i].name, s, n) == 0)
                bit = scope_names[i].bit;
        }
        if (bit == 0)
            return 0;
        scopes |= bit;
        if (s[n] == '\0')
            return scopes;
        s += n + 1;
    }
}

void scopes_text(unsigned scopes, char out[24])
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < N_SCOPES; i++) {
        if ((scopes & scope_names[i].bit) != 0)
            n += (size_t)snprintf(out + n, 24 - n, "%s%s", n == 0 ? "" : ",", scope_names[i].name);
    }
}

/* --- the mirror --- */

static enum otl_err token_hash(struct bytes text, uint8_t out[TOKEN_HASH], struct otl_error *err)
{
    if (EVP_Digest(text.p, text.n, out, NULL, EVP_sha256(), NULL) != 1)
        return otl_fail(err, OTL_EINTERNAL, "SHA-256 is not available");
    return OTL_OK;
}

/* One row of SQL_TOKENS. */
static enum otl_err token_from_row(struct sqlite3_stmt *s, struct state_token *t,
                                   struct otl_error *err)
{
    const void *hash = sqlite3_column_blob(s, 2);
    const char *scopes = (const char *)sqlite3_column_text(s, 3);

    t->id = sqlite3_column_int64(s, 0);
    t->project_id = sqlite3_column_int64(s, 1);
    t->expires_ns = sqlite3_column_int64(s, 4);
    t->scopes = scopes == NULL ? 0 : scopes_parse(scopes);
    if (hash == NULL || sqlite3_column_bytes(s, 2) != TOKEN_HASH || t->scopes == 0)
        return otl_fail(err, OTL_ECORRUPT,
                        "token %" PRId64 " in state.db is damaged; delete its row", t->id);
    memcpy(t->hash, hash, TOKEN_HASH);
    return OTL_OK;
}

static const char SQL_TOKENS[] = "SELECT id, project_id, hash, scopes, expires FROM token"
                                 " WHERE revoked = 0 ORDER BY id";

enum otl_err tokens_load(struct state *st, struct otl_error *err)
{
    struct state_token *tokens = NULL, *old;
    size_t n = 0, room = 0;
    struct sqlite3_stmt *s;
    enum otl_err rc = db_prepare(&st->db, SQL_TOKENS, &s, err);
    int step = SQLITE_DONE;

    if (rc != OTL_OK)
        return rc;
    while (rc == OTL_OK && (step = sqlite3_step(s)) == SQLITE_ROW) {
        if (n == room) {
            struct state_token *more;

            room = room == 0 ? 16 : room * 2;
            more = reallocarray(tokens, room, sizeof(*tokens));
            if (more == NULL) {
                rc = otl_fail(err, OTL_ENOMEM, "out of memory while reading tokens");
                break;
            }
            tokens = more;
        }
        rc = token_from_row(s, &tokens[n], err);
        n++;
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(&st->db, step, "read the tokens", err);
    (void)sqlite3_finalize(s);
    if (rc != OTL_OK) {
        free(tokens);
        return rc;
    }
    pthread_rwlock_wrlock(&st->tokens_mu);
    old = st->tokens;
    st->tokens = tokens;
    st->n_tokens = n;
    pthread_rwlock_unlock(&st->tokens_mu);
    free(old);
    return OTL_OK;
}

size_t state_token_count(struct state *st)
{
    size_t n;

    pthread_rwlock_rdlock(&st->tokens_mu);
    n = st->n_tokens;
    pthread_rwlock_unlock(&st->tokens_mu);
    return n;
}

/* Compares with every token, so that the time tells nothing of where one matched. */
static bool token_find(struct state *st, const uint8_t hash[TOKEN_HASH], struct state_token *out)
{
    bool found = false;

    pthread_rwlock_rdlock(&st->tokens_mu);
    for (size_t i = 0; i < st->n_tokens; i++) {
        if (CRYPTO_memcmp(st->tokens[i].hash, hash, TOKEN_HASH) == 0) {
            *out = st->tokens[i];
            found = true;
        }
    }
    pthread_rwlock_unlock(&st->tokens_mu);
    return found;
}

enum otl_err state_auth(struct state *st, struct bytes token, enum scope need,
                        struct principal *out, struct otl_error *err)
{
    uint8_t hash[TOKEN_HASH];
    char need_text[24], have_text[24];
    struct state_token t;
    enum otl_err rc;

    if (token.n == 0)
        return otl_fail(err, OTL_EAUTH,
                        "no token was sent; send the header \"Authorization: Bearer TOKEN\"");
    if (token.n > MAX_TOKEN_BYTES)
        return otl_fail(err, OTL_EAUTH, "what was sent is too long to be a token");
    rc = token_hash(token, hash, err);
    if (rc != OTL_OK)
        return rc;
    if (!token_find(st, hash, &t))
        return otl_fail(err, OTL_EAUTH,
                        "the token is not known here, or was revoked; `otlite token create` makes "
                        "a new one");
    if (t.expires_ns != 0 && clock_wall_ns() >= t.expires_ns)
        return otl_fail(err, OTL_EAUTH,
                        "token %" PRId64 " has expired; `otlite token create` makes a new one",
                        t.id);
    if ((t.scopes & (need | SCOPE_ADMIN)) == 0) {
        scopes_text(need, need_text);
        scopes_text(t.scopes, have_text);
        return otl_fail(err, OTL_EFORBIDDEN, "token %" PRId64 " has the scope %s; this needs %s",
                        t.id, have_text, need_text);
    }
    *out = (struct principal){.project_id = t.project_id, .scopes = t.scopes};
    return OTL_OK;
}

/* --- making, revoking, listing --- */

static enum otl_err random_fill(uint8_t *p, size_t n, struct otl_error *err)
{
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            return otl_fail(err, OTL_ESYSTEM, "the kernel gives no random bytes: %s",
                            strerror(errno));
        }
        p += got;
        n -= (size_t)got;
    }
    return OTL_OK;
}

static void token_text(const uint8_t raw[TOKEN_RANDOM], char out[STATE_TOKEN_TEXT])
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t n = sizeof(TOKEN_PREFIX) - 1;

    memcpy(out, TOKEN_PREFIX, n);
    for (size_t bit = 0; bit < (size_t)TOKEN_RANDOM * 8; bit += 6) {
        size_t byte = bit / 8;
        /* Two bytes hold any six bits; behind the last byte come zeros. */
        unsigned two = (unsigned)raw[byte] << 8;

        if (byte + 1 < TOKEN_RANDOM)
            two |= raw[byte + 1];
        out[n++] = alphabet[(two >> (10 - bit % 8)) & 63];
    }
    out[n] = '\0';
}

/* Text for people: UTF-8 without control characters, so that a listing stays a listing. */
static bool text_valid(const char *s, size_t max)
{
    size_t n = strlen(s);

    if (n > max || !utf8_valid(bytes_of(s, n)))
        return false;
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    }
    return true;
}

static enum otl_err project_make(struct state *st, const char *name, int64_t *out,
                                 struct otl_error *err)
{
    struct sqlite3_stmt *s;
    int bound = SQLITE_OK;
    enum otl_err rc = state_project_find(st, name, out, err);

    if (rc != OTL_OK || *out != 0)
        return rc;
    rc = db_prepare(&st->db, "INSERT INTO project (name, created) VALUES (?, ?)", &s, err);
    if (rc != OTL_OK)
        return rc;
    state_bind_text(s, 1, bytes_str(name), &bound);
    state_bind_int(s, 2, clock_wall_ns(), &bound);
    rc = bound == SQLITE_OK ? db_run(&st->db, s, "create a project", err)
                            : db_fail(&st->db, bound, "create a project", err);
    (void)sqlite3_finalize(s);
    if (rc == OTL_OK)
        *out = sqlite3_last_insert_rowid(st->db.sql);
    return rc;
}

static const char SQL_TOKEN_PUT[] =
    "INSERT INTO token (project_id, hash, scopes, note, created, expires, revoked)"
    " VALUES (?, ?, ?, ?, ?, ?, 0)";

static enum otl_err token_put(struct state *st, const struct state_token *t, const char *note,
                              int64_t now, int64_t *out_id, struct otl_error *err)
{
    struct sqlite3_stmt *s;
    char scopes[24];
    int bound = SQLITE_OK;
    enum otl_err rc = db_prepare(&st->db, SQL_TOKEN_PUT, &s, err);

    if (rc != OTL_OK)
        return rc;
    scopes_text(t->scopes, scopes);
    state_bind_int(s, 1, t->project_id, &bound);
    if (bound == SQLITE_OK)
        bound = sqlite3_bind_blob(s, 2, t->hash, TOKEN_HASH, SQLITE_STATIC);
    state_bind_text(s, 3, bytes_str(scopes), &bound);
    state_bind_text(s, 4, bytes_str(note), &bound);
    state_bind_int(s, 5, now, &bound);
    state_bind_int(s, 6, t->expires_ns, &bound);
    rc = bound == SQLITE_OK ? db_run(&st->db, s, "store a token", err)
                            : db_fail(&st->db, bound, "store a token", err);
    (void)sqlite3_finalize(s);
    if (rc == OTL_OK)
        *out_id = sqlite3_last_insert_rowid(st->db.sql);
    return rc;
}

/* Our own commit does not change data_version, so the mirror is brought up to date here. What
 * cannot be read now is read at the next refresh; the change itself is committed. */
static void mirror_renew(struct state *st)
{
    if (tokens_load(st, NULL) != OTL_OK)
        st->data_version = -1;
}

enum otl_err state_token_create(struct state *st, const char *project, unsigned scopes,
                                const char *note, int64_t expires_ns, char out[STATE_TOKEN_TEXT],
                                int64_t *out_id, struct otl_error *err)
{
    struct state_token t = {.scopes = scopes, .expires_ns = expires_ns};
    uint8_t raw[TOKEN_RANDOM];
    char text[STATE_TOKEN_TEXT];
    int64_t id = 0, now = clock_wall_ns();
    enum otl_err rc;

    if (project[0] == '\0' || !text_valid(project, MAX_PROJECT_NAME))
        return otl_fail(err, OTL_EBADREQUEST,
                        "a project's name is 1 to %d bytes of UTF-8 without control characters",
                        MAX_PROJECT_NAME);
    if (!text_valid(note, MAX_NOTE))
        return otl_fail(err, OTL_EBADREQUEST,
                        "a note is at most %d bytes of UTF-8 without control characters", MAX_NOTE);
    if (scopes == 0 || (scopes & ~(unsigned)(SCOPE_WRITE | SCOPE_READ | SCOPE_ADMIN)) != 0)
        return otl_fail(err, OTL_EBADREQUEST, "a token needs a scope: write, read or admin");
    if (expires_ns < 0 || (expires_ns != 0 && expires_ns <= now))
        return otl_fail(err, OTL_EBADREQUEST, "the token would have expired already");
    rc = random_fill(raw, sizeof(raw), err);
    if (rc != OTL_OK)
        return rc;
    token_text(raw, text);
    rc = token_hash(bytes_str(text), t.hash, err);
    if (rc == OTL_OK) {
        pthread_mutex_lock(&st->mu);
        rc = state_begin(st, st->wait_ms, err);
        if (rc == OTL_OK) {
            rc = project_make(st, project, &t.project_id, err);
            if (rc == OTL_OK)
                rc = token_put(st, &t, note, now, &id, err);
            rc = state_end(st, rc, err);
            if (rc == OTL_OK)
                mirror_renew(st);
        }
        pthread_mutex_unlock(&st->mu);
    }
    if (rc == OTL_OK) {
        memcpy(out, text, sizeof(text));
        *out_id = id;
    }
    OPENSSL_cleanse(raw, sizeof(raw));
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}

/* Under mu, inside a transaction. The first revocation's time stays. */
static enum otl_err token_revoke(struct state *st, int64_t id, struct otl_error *err)
{
    static const char sql[] = "UPDATE token SET revoked = iif(revoked = 0, ?2, revoked)"
                              " WHERE id = ?1";
    struct sqlite3_stmt *s;
    int bound = SQLITE_OK;
    enum otl_err rc = db_prepare(&st->db, sql, &s, err);

    if (rc != OTL_OK)
        return rc;
    state_bind_int(s, 1, id, &bound);
    state_bind_int(s, 2, clock_wall_ns(), &bound);
    rc = bound == SQLITE_OK ? db_run(&st->db, s, "revoke a token", err)
                            : db_fail(&st->db, bound, "revoke a token", err);
    (void)sqlite3_finalize(s);
    if (rc == OTL_OK && sqlite3_changes(st->db.sql) == 0)
        rc = otl_fail(err, OTL_ENOTFOUND,
                      "there is no token %" PRId64 "; `otlite token list` shows them", id);
    return rc;
}

enum otl_err state_token_revoke(struct state *st, int64_t id, struct otl_error *err)
{
    enum otl_err rc;

    pthread_mutex_lock(&st->mu);
    rc = state_begin(st, st->wait_ms, err);
    if (rc == OTL_OK) {
        rc = state_end(st, token_revoke(st, id, err), err);
        if (rc == OTL_OK)
            mirror_renew(st);
    }
    pthread_mutex_unlock(&st->mu);
    return rc;
}

static const char SQL_TOKEN_LIST[] =
    "SELECT t.id, p.name, t.scopes, t.note, t.created, t.expires, t.revoked"
    " FROM token t JOIN project p ON p.id = t.project_id ORDER BY t.id";

enum otl_err state_token_list(struct state *st, void (*fn)(void *arg, const struct token_info *t),
                              void *arg, struct otl_error *err)
{
    struct sqlite3_stmt *s;
    enum otl_err rc;
    int step;

    pthread_mutex_lock(&st->mu);
    rc = db_prepare(&st->db, SQL_TOKEN_LIST, &s, err);
    if (rc == OTL_OK) {
        while ((step = sqlite3_step(s)) == SQLITE_ROW) {
            const char *project = (const char *)sqlite3_column_text(s, 1);
            const char *scopes = (const char *)sqlite3_column_text(s, 2);
            const char *note = (const char *)sqlite3_column_text(s, 3);
            struct token_info t = {
                .id = sqlite3_column_int64(s, 0),
                .project = project == NULL ? "" : project,
                .scopes = scopes == NULL ? 0 : scopes_parse(scopes),
                .note = note == NULL ? "" : note,
                .created_ns = sqlite3_column_int64(s, 4),
                .expires_ns = sqlite3_column_int64(s, 5),
                .revoked_ns = sqlite3_column_int64(s, 6),
            };

            fn(arg, &t);
        }
        if (step != SQLITE_DONE)
            rc = db_fail(&st->db, step, "list the tokens", err);
        (void)sqlite3_finalize(s);
    }
    pthread_mutex_unlock(&st->mu);
    return rc;
}
