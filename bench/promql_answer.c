/* promql_answer.c -- two answers of the HTTP API held against each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "promql.h"

static int compare_values(const void *a, const void *b)
{
    const struct promql_value *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static enum otl_err add(struct promql_answer *a, struct promql_value v, struct otl_error *err)
{
    if (a->n == a->cap) {
        size_t cap = a->cap == 0 ? 4096 : 2 * a->cap;
        struct promql_value *more = reallocarray(a->v, cap, sizeof(*more));

        if (more == NULL)
            return otl_fail(err, OTL_ENOMEM, "no memory for an answer");
        a->v = more;
        a->cap = cap;
    }
    a->v[a->n++] = v;
    return OTL_OK;
}

enum otl_err promql_answer_read(struct promql_answer *a, const char *json, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    a->n = 0;
    while (rc == OTL_OK && (json = strchr(json, '[')) != NULL) {
        char *end;
        double t = strtod(json + 1, &end);

        json++;
        if (end == json || end[0] != ',' || end[1] != '"')
            continue;
        json = end + 2;
        rc = add(a, (struct promql_value){.time = t, .value = strtod(json, &end)}, err);
        json = end;
    }
    if (a->n > 0)
        qsort(a->v, a->n, sizeof(*a->v), compare_values);
    return rc;
}

void promql_answer_fini(struct promql_answer *a)
{
    free(a->v);
    *a = (struct promql_answer){0};
}

bool promql_answer_equal(const struct promql_answer *a, const struct promql_answer *b)
{
    bool same = a->n == b->n && a->n > 0;

    for (size_t i = 0; i < a->n && same; i++) {
        double x = a->v[i].value, y = b->v[i].value;

        same = a->v[i].time == b->v[i].time &&
               (fabs(x - y) <= 1e-6 * fmax(fabs(x), fabs(y)) || (isnan(x) && isnan(y)));
    }
    return same;
}
