/* querier.c -- what queries of a process share, and the life of one query's view. */
#include "querier_internal.h"

#include <stdlib.h>

#include "otlite/clock.h"

/* Labels of a hundred thousand series and more. */
enum { LABEL_CACHE_BYTES = 48 << 20 };

enum otl_err querier_no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "query: no memory");
}

enum otl_err querier_arena_failed(const struct arena *a, struct otl_error *err)
{
    if (!a->over_budget)
        return querier_no_memory(err);
    return otl_fail(err, OTL_ETOOBIG,
                    "the labels of the series take more than the %zu bytes of memory that a query "
                    "may use; add matchers to the selector, or raise query.max_memory",
                    a->budget);
}

int64_t querier_ns_from(int64_t from_ms)
{
    return from_ms <= INT64_MIN / NS_PER_MS ? INT64_MIN : from_ms * NS_PER_MS;
}

int64_t querier_ns_to(int64_t to_ms)
{
    return to_ms >= INT64_MAX / NS_PER_MS - 1 ? INT64_MAX : querier_ns_from(to_ms + 1);
}

/* ---- shared ---- */

static bool copy_promoted(struct querier_shared *s, const char *const *promote)
{
    size_t n = 0;

    while (promote != NULL && promote[n] != NULL)
        n++;
    s->promote = calloc(n + 1, sizeof(*s->promote));
    for (size_t i = 0; s->promote != NULL && i < n; i++) {
        s->promote[i] = strdup(promote[i]);
        if (s->promote[i] == NULL)
            return false;
    }
    s->opts.promote = s->promote;
    return s->promote != NULL;
}

enum otl_err querier_shared_new(const struct querier_opts *o, struct querier_shared **out,
                                struct otl_error *err)
{
    struct querier_shared *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return querier_no_memory(err);
    if (!family_table_init(&s->families)) {
        free(s);
        return otl_fail(err, OTL_ESYSTEM, "the lock of the names of metrics could not be made");
    }
    s->opts = *o;
    s->labels = label_cache_new(LABEL_CACHE_BYTES);
    if (s->labels == NULL || !copy_promoted(s, o->promote)) {
        querier_shared_free(s);
        return querier_no_memory(err);
    }
    *out = s;
    return OTL_OK;
}

void querier_shared_free(struct querier_shared *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; s->promote != NULL && s->promote[i] != NULL; i++)
        free((void *)(uintptr_t)s->promote[i]);
    free(s->promote);
    family_table_fini(&s->families);
    label_cache_free(s->labels);
    free(s);
}

/* ---- one query ---- */

enum otl_err querier_new(struct querier_shared *s, struct read *r, int64_t project_id,
                         struct arena *a, struct querier **out, struct otl_error *err)
{
    struct querier *q = calloc(1, sizeof(*q));

    if (q == NULL)
        return querier_no_memory(err);
    q->shared = s;
    q->r = r;
    q->project_id = project_id;
    q->arena = a;
    *out = q;
    return OTL_OK;
}

static void selected_free(struct querier *q, struct selected *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        free(s->targets[i].t);
    free(s->targets);
    free(s->stored);
    free(s->sources);
    (void)!read_charge(q->r, -s->charged, NULL);
    free(s);
}

struct selected *querier_set_of(struct querier *q, const struct series_set *s)
{
    struct selected *found = q->sets;

    while (found != NULL && &found->set != s)
        found = found->next;
    return found;
}

void querier_free(struct querier *q)
{
    if (q == NULL)
        return;
    while (q->sets != NULL) {
        struct selected *s = q->sets;

        q->sets = s->next;
        selected_free(q, s);
    }
    label_builder_fini(&q->builder);
    buf_fini(&q->text);
    buf_fini(&q->scope_text);
    free(q);
}
