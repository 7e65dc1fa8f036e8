/* sql.c -- POST /api/v1/sql. The query runs on a reader thread, in a snapshot of its own; the event
 * loop only hands it over and sends the answer. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "otlite/sql.h"
#include "otlite/sql_api.h"
#include "otlite/stats.h"

struct sql_job {
    struct read_job job;
    struct http_exchange *x;
    struct sql_query query;
    atomic_bool gone; /* the client */
    bool truncated;
    struct buf answer;
};

static struct sql_job *job_of(struct read_job *job)
{
    return (struct sql_job *)(void *)((char *)job - offsetof(struct sql_job, job));
}

/* False: none of those that are taken. Without a type the body is the statement. */
static bool body_type(const struct http_exchange *x, bool *is_json)
{
    static const struct {
        const char *name;
        bool is_json;
    } types[] = {{"application/json", true}, {"application/sql", false}, {"text/plain", false}};
    const char *type = http_header(x, "Content-Type");
    size_t n;

    *is_json = false;
    if (type == NULL)
        return true;
    type += strspn(type, " \t");
    n = strcspn(type, "; \t");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (n == strlen(types[i].name) && strncasecmp(type, types[i].name, n) == 0) {
            *is_json = types[i].is_json;
            return true;
        }
    }
    return false;
}

bool sql_api_admit(struct http_exchange *x, void *arg)
{
    const struct sql_api *a = arg;
    const char *coding = http_header(x, "Content-Encoding");
    struct principal who;
    struct otl_error err;
    bool is_json;
    enum otl_err rc = auth_check(a->auth, x, SCOPE_READ, &who, &err);

    if (rc == OTL_OK && !body_type(x, &is_json))
        rc = otl_fail(&err, OTL_EMEDIATYPE,
                      "send the statement as text/plain or application/sql, or {\"sql\": \"...\"} "
                      "as application/json");
    if (rc == OTL_OK && coding != NULL && strcasecmp(coding, "identity") != 0)
        rc = otl_fail(&err, OTL_EMEDIATYPE, "send the query without a Content-Encoding");
    if (rc == OTL_OK)
        return true;
    http_reply_error(x, ENCODING_JSON, &err);
    return false;
}

static enum otl_err sql_work(struct read_job *job, struct db *db, struct otl_error *err)
{
    struct sql_job *s = job_of(job);
    enum otl_err rc;

    STATS_ADD(queries, 1);
    STATS_ADD(queries_running, 1);
    rc = sql_answer(db, job->sql, &s->query, &s->answer, &s->truncated, err);
    if (rc == OTL_ECANCELLED)
        STATS_ADD(queries_cancelled, 1);
    STATS_SUB(queries_running, 1);
    return rc;
}

static void sql_finish(struct sql_job *s, enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK) {
        http_reply_error(s->x, ENCODING_JSON, err);
    } else {
        if (s->truncated)
            http_add_header(s->x, "Otlite-Truncated", "true");
        http_reply(s->x, 200, s->query.csv ? "text/csv; charset=utf-8" : "application/json",
                   buf_bytes(&s->answer));
    }
    buf_fini(&s->answer);
    free(s);
}

static void on_answered(struct handoff_item *item)
{
    struct read_job *job =
        (struct read_job *)(void *)((char *)item - offsetof(struct read_job, done));

    sql_finish(job_of(job), job->rc, &job->err);
}

void sql_api_handle(struct http_exchange *x, void *arg)
{
    const struct sql_api *a = arg;
    const char *accept = http_header(x, "Accept");
    struct sql_job *s = calloc(1, sizeof(*s));
    struct principal who;
    struct otl_error err;
    enum otl_err rc = OTL_OK;

    if (s == NULL) {
        (void)otl_fail(&err, OTL_ENOMEM, "query: no memory");
        http_reply_error(x, ENCODING_JSON, &err);
        return;
    }
    s->x = x;
    s->query = (struct sql_query){
        .body = http_body(x),
        .csv = accept != NULL && strcasestr(accept, "text/csv") != NULL,
        .timeout_ms = a->timeout_ms,
        .max_rows = a->max_rows,
        .max_bytes = a->max_bytes,
        .max_memory = a->max_memory,
        .cancel = &s->gone,
    };
    /* Again, since a token may have been revoked while the body came. */
    rc = auth_check(a->auth, x, SCOPE_READ, &who, &err);
    if (rc == OTL_OK) {
        (void)body_type(x, &s->query.is_json); /* sql_api_admit saw that it is one */
        s->query.project = (who.scopes & SCOPE_ADMIN) != 0 ? 0 : who.project_id;
        s->job.reply_to = http_loop_handoff(http_exchange_loop(x));
        s->job.done.run = on_answered;
        s->job.work = sql_work;
        http_watch_client(x, &s->gone);
        rc = reader_submit(a->readers, &s->job, &err);
    }
    if (rc != OTL_OK)
        sql_finish(s, rc, &err);
}
