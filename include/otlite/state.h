/* state.h -- state.db: projects, tokens, and the catalogue of what was seen.
 *
 * One connection behind one mutex. Authentication never touches SQLite: tokens are mirrored in
 * memory as SHA-256 hashes and compared in constant time, so event loops may call state_auth. */
#ifndef OTLITE_STATE_H
#define OTLITE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"
#include "otlite/err.h"

enum { STATE_APPLICATION_ID = 0x6f746c73 /* "otls" */, STATE_DEFAULT_PROJECT = 1 };

enum scope { SCOPE_WRITE = 1, SCOPE_READ = 2, SCOPE_ADMIN = 4 /* implies the others */ };

struct state;

/* Open or create DIR/state.db and migrate it; creates project 1, "default". */
enum otl_err state_open(const char *data_dir, struct state **out,
                        struct otl_error *err) OTL_MUSTCHECK;
void state_close(struct state *st);

struct principal {
    int64_t project_id;
    unsigned scopes; /* SCOPE_* bits */
};

/* Number of tokens that are not revoked. */
size_t state_token_count(struct state *st);
/* The principal of a token's text; OTL_EAUTH when unknown, OTL_EFORBIDDEN without the scope. */
enum otl_err state_auth(struct state *st, struct bytes token, enum scope need,
                        struct principal *out, struct otl_error *err) OTL_MUSTCHECK;
/* Read tokens again (SIGHUP). */
enum otl_err state_reload(struct state *st, struct otl_error *err) OTL_MUSTCHECK;
/* The same, but only when another process changed the file since; cheap enough for every second. */
enum otl_err state_refresh(struct state *st, struct otl_error *err) OTL_MUSTCHECK;

/* "write", "read", "admin", or a comma-separated list; 0 when not valid. */
unsigned scopes_parse(const char *s);
/* "read,write" into out. */
void scopes_text(unsigned scopes, char out[24]);

enum { STATE_TOKEN_TEXT = 64 };

/* A new random token for a project, which is created when it does not exist. The text is handed out
 * here only; the file keeps its hash. expires_ns 0: never. */
enum otl_err state_token_create(struct state *st, const char *project, unsigned scopes,
                                const char *note, int64_t expires_ns, char out[STATE_TOKEN_TEXT],
                                int64_t *out_id, struct otl_error *err) OTL_MUSTCHECK;
/* Revoke by id; OTL_ENOTFOUND. */
enum otl_err state_token_revoke(struct state *st, int64_t id, struct otl_error *err) OTL_MUSTCHECK;

struct token_info {
    int64_t id;
    const char *project;
    unsigned scopes;
    const char *note;
    int64_t created_ns, expires_ns, revoked_ns; /* 0: not */
};
/* Every token, oldest first; strings valid during the call only. */
enum otl_err state_token_list(struct state *st, void (*fn)(void *arg, const struct token_info *t),
                              void *arg, struct otl_error *err) OTL_MUSTCHECK;
/* Project id by name; OTL_ENOTFOUND. */
enum otl_err state_project(struct state *st, const char *name, int64_t *out,
                           struct otl_error *err) OTL_MUSTCHECK;

/* Whether a power cut may take back what was noted last (not: true, as state_open leaves it).
 * Tokens and projects are always synced. Notes need not outlive the points that they are about. */
void state_sync_notes(struct state *st, bool sync);

/* Note the services and metrics of a batch: new ones, changed type, unit or (longer) description,
 * and last_seen when it is a minute or more behind. Commits when anything changed; most calls find
 * nothing to do and touch no file. The signature is that of writer_opts.before_batch. */
enum otl_err state_note_batch(void *state, int64_t project_id, const struct batch *b,
                              struct otl_error *err) OTL_MUSTCHECK;

#endif
