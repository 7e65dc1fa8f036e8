#include "querier_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/format_number.h"
#include "query/value.h"
#include "series_text.h"

static void ok(enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK)
        fail_msg("%s: %s", otl_err_text(rc), err->msg);
}

void qf_open(struct qf *q)
{
    *q = (struct qf){.opts = {.lookback_ms = 300000}};
    q->dir = fx_dir_new();
    q->store.dir = q->dir;
    mf_open(&q->store);
    q->f = fx_new();
}

void qf_close(struct qf *q)
{
    mf_close(&q->store);
    fx_free(q->f);
    fx_dir_free(q->dir);
}

void qf_store(struct qf *q)
{
    assert_int_equal(mf_store(&q->store, &q->f->b), OTL_OK);
    fx_reset(q->f);
}

struct bytes qf_attrs(struct fx *f, ...)
{
    uint8_t *p = arena_alloc(&f->arena, 4096);
    size_t n = 1, pairs = 0;
    const char *text;
    va_list ap;

    assert_non_null(p);
    va_start(ap, f);
    for (int i = 0; (text = va_arg(ap, const char *)) != NULL; i++) {
        size_t length = strlen(text);

        assert_true(length < 128 && n + length + 2 < 4096);
        if (i % 2 == 1)
            p[n++] = 's';
        else
            pairs++;
        p[n++] = (uint8_t)length;
        memcpy(p + n, text, length);
        n += length;
    }
    va_end(ap);
    assert_true(pairs < 128);
    p[0] = (uint8_t)pairs;
    return bytes_of(p, n);
}

void qf_begin(struct qf *q, struct qf_query *out)
{
    struct store_opts o = fx_opts(q->dir);
    struct otl_error err;

    *out = (struct qf_query){0};
    ok(store_open_reader(&out->db, &o, &err), &err);
    ok(read_shared_new(NULL, 64 << 20, &out->shared, &err), &err);
    ok(read_session_open(out->shared, &out->db, &out->session, &err), &err);
    ok(read_begin(out->session, NULL, true, &out->r, &err), &err);
    ok(querier_shared_new(&q->opts, &out->names, &err), &err);
    arena_init(&out->arena, 256 << 20);
    ok(querier_new(out->names, out->r, q->project_id, &out->arena, &out->querier, &err), &err);
}

void qf_end(struct qf_query *query)
{
    querier_free(query->querier);
    querier_shared_free(query->names);
    arena_fini(&query->arena);
    read_end(query->r);
    read_session_close(query->session);
    read_shared_free(query->shared);
    db_close(&query->db);
}

struct lines {
    const struct series_set *set;
    struct buf *of; /* one a series */
};

static enum otl_err add_samples(void *arg, size_t i, const struct samples *v, struct otl_error *err)
{
    struct lines *l = arg;
    struct buf *out = &l->of[i];

    (void)err;
    assert_true(i < l->set->n && v->n > 0);
    assert_int_equal(out->n, 0); /* once a series */
    for (size_t k = 0; k < v->n; k++) {
        assert_true(k == 0 || v->t[k] > v->t[k - 1]);
        buf_add_char(out, ' ');
        if (v->h != NULL && v->h[k] != NULL) {
            assert_true(prom_is_stale(v->v[k]));
            histogram_print(out, v->h[k]);
        } else if (prom_is_stale(v->v[k])) {
            buf_add_str(out, "stale");
        } else {
            format_general(out, v->v[k]);
        }
        buf_printf(out, "@%lld", (long long)v->t[k]);
    }
    return OTL_OK;
}

static char *answer(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms, bool exact,
                    bool samples)
{
    struct qf_query query;
    const struct label_matcher *m;
    struct lines l = {0};
    struct buf out = {0};
    struct otl_error err;
    char *text;
    size_t n;
    enum otl_err rc;

    qf_begin(q, &query);
    ok(promql_parse_selector(&query.arena, bytes_str(selector), &m, &n, &err), &err);
    rc = querier_select(query.querier, m, n, from_ms, to_ms, exact, &l.set, &err);
    if (rc == OTL_OK) {
        l.of = calloc(l.set->n + 1, sizeof(*l.of));
        assert_non_null(l.of);
        if (samples)
            rc = querier_scan(query.querier, l.set, from_ms, to_ms, NULL, add_samples, &l, &err);
    }
    if (rc != OTL_OK)
        buf_printf(&out, "error: %s\n", err.msg);
    for (size_t i = 0; rc == OTL_OK && i < l.set->n; i++) {
        assert_true(i == 0 || labels_compare(l.set->labels[i - 1], l.set->labels[i]) < 0);
        if (samples && l.of[i].n == 0)
            continue;
        print_series(&out, l.set->labels[i]);
        buf_add_bytes(&out, buf_bytes(&l.of[i]));
        buf_add_char(&out, '\n');
    }
    for (size_t i = 0; l.of != NULL && i < l.set->n; i++)
        buf_fini(&l.of[i]);
    free(l.of);
    qf_end(&query);
    text = strdup(buf_cstr(&out));
    assert_non_null(text);
    buf_fini(&out);
    return text;
}

char *qf_samples(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms)
{
    return answer(q, selector, from_ms, to_ms, false, true);
}

char *qf_series(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms, bool exact)
{
    return answer(q, selector, from_ms, to_ms, exact, false);
}

void qf_expect(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms,
               const char *expected)
{
    char *text = qf_samples(q, selector, from_ms, to_ms);

    if (strcmp(text, expected) != 0)
        fail_msg("%s gives\n%swhere it should be\n%s", selector, text, expected);
    free(text);
}
