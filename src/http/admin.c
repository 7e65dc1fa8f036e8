#include "otlite/admin.h"

#include <inttypes.h>
#include <stdlib.h>

#include "otlite/clock.h"
#include "otlite/stats.h"

static const char text_plain[] = "text/plain; charset=utf-8";

static void reply_text(struct http_exchange *x, int status, const char *text)
{
    http_reply(x, status, text_plain, bytes_str(text));
}

static void reply_no_memory(struct http_exchange *x)
{
    http_add_header(x, "Retry-After", "1");
    reply_text(x, 503, "out of memory\n");
}

void admin_healthz(struct http_exchange *x, void *arg)
{
    (void)arg;
    reply_text(x, 200, "ok\n");
}

struct probe {
    struct write_job job;
    struct http_exchange *x;
    struct admin *admin;
};

static void probe_finish(struct probe *p, const struct otl_error *err)
{
    struct buf b = {0};

    if (err == NULL) {
        reply_text(p->x, 200, "ready\n");
    } else {
        http_add_header(p->x, "Retry-After", "1");
        buf_printf(&b, "not ready: %s\n", err->msg);
        reply_text(p->x, 503, buf_cstr(&b));
        buf_fini(&b);
    }
    free(p);
}

static void on_probed(struct handoff_item *item)
{
    struct write_job *job =
        (struct write_job *)(void *)((char *)item - offsetof(struct write_job, done));
    struct probe *p = (struct probe *)(void *)((char *)job - offsetof(struct probe, job));

    if (job->rc == OTL_OK)
        atomic_store(&p->admin->proved_ns, clock_mono_ns());
    probe_finish(p, job->rc == OTL_OK ? NULL : &job->err);
}

void admin_readyz(struct http_exchange *x, void *arg)
{
    struct admin *a = arg;
    int64_t proved = atomic_load(&a->proved_ns);
    struct probe *p;
    struct otl_error err;

    if (proved != 0 && !http_stopping(x) && clock_mono_ns() - proved < ADMIN_PROOF_MS * NS_PER_MS) {
        reply_text(x, 200, "ready\n");
        return;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        reply_no_memory(x);
        return;
    }
    p->x = x;
    p->admin = a;
    if (http_stopping(x)) {
        (void)otl_fail(&err, OTL_ESTOPPING, "the daemon is stopping");
        probe_finish(p, &err);
        return;
    }
    p->job.reply_to = http_loop_handoff(http_exchange_loop(x));
    p->job.done.run = on_probed;
    if (writer_submit(a->writer, &p->job, &err) != OTL_OK)
        probe_finish(p, &err);
}

/* What only the database knows is read by a reader thread, in its own snapshot. */
struct scrape {
    struct read_job job;
    struct http_exchange *x;
    int64_t pages, free_pages, page_size;
};

static enum otl_err scrape_work(struct read_job *job, struct db *db, struct otl_error *err)
{
    struct scrape *s = (struct scrape *)(void *)((char *)job - offsetof(struct scrape, job));
    enum otl_err rc = db_query_int(db, "PRAGMA page_count", &s->pages, err);

    if (rc == OTL_OK)
        rc = db_query_int(db, "PRAGMA freelist_count", &s->free_pages, err);
    if (rc == OTL_OK)
        rc = db_query_int(db, "PRAGMA page_size", &s->page_size, err);
    return rc;
}

static void add_gauge(struct buf *b, const char *name, const char *help, int64_t v)
{
    buf_printf(b, "# HELP otlite_%s %s\n# TYPE otlite_%s gauge\notlite_%s %" PRId64 "\n", name,
               help, name, name, v);
}

static void scrape_finish(struct scrape *s, bool have_pages)
{
    struct buf b = {0};

    stats_render(&b);
    add_gauge(&b, "database_readable", "1 when a reader could look into telemetry.db", have_pages);
    if (have_pages) {
        add_gauge(&b, "database_page_bytes", "Bytes of one page of telemetry.db", s->page_size);
        add_gauge(&b, "database_pages", "Pages of telemetry.db, the WAL's included", s->pages);
        add_gauge(&b, "database_free_pages", "Pages of telemetry.db that are free", s->free_pages);
    }
    if (b.failed)
        reply_no_memory(s->x);
    else
        http_reply(s->x, 200, "text/plain; version=0.0.4; charset=utf-8", buf_bytes(&b));
    buf_fini(&b);
    free(s);
}

static void on_scraped(struct handoff_item *item)
{
    struct read_job *job =
        (struct read_job *)(void *)((char *)item - offsetof(struct read_job, done));
    struct scrape *s = (struct scrape *)(void *)((char *)job - offsetof(struct scrape, job));

    scrape_finish(s, job->rc == OTL_OK);
}

void admin_metrics(struct http_exchange *x, void *arg)
{
    struct admin *a = arg;
    struct principal who;
    struct otl_error err;
    struct scrape *s;

    if (auth_check(a->auth, x, SCOPE_READ, &who, &err) != OTL_OK) {
        http_reply_error(x, ENCODING_JSON, &err);
        return;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        reply_no_memory(x);
        return;
    }
    s->x = x;
    s->job.reply_to = http_loop_handoff(http_exchange_loop(x));
    s->job.done.run = on_scraped;
    s->job.work = scrape_work;
    if (reader_submit(a->readers, &s->job, &err) != OTL_OK)
        scrape_finish(s, false);
}
