#include "export_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int in_order(const void *a, const void *b)
{
    const struct series_info *x = a, *y = b;

    if (x->resource_id != y->resource_id)
        return x->resource_id < y->resource_id ? -1 : 1;
    if (x->scope_id != y->scope_id)
        return x->scope_id < y->scope_id ? -1 : 1;
    if (x->metric_id != y->metric_id)
        return x->metric_id < y->metric_id ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

enum otl_err export_series(struct read *r, const struct export_opts *o, struct series_info **out,
                           size_t *n, struct otl_error *err)
{
    struct series_list ids = {0};
    enum otl_err rc = read_select(r, o->project_id, o->matchers, o->n_matchers, &ids, err);

    *n = 0;
    *out = NULL;
    if (rc == OTL_OK) {
        *out = calloc(ids.n + 1, sizeof(**out));
        if (*out == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "export %zu series: no memory", ids.n);
    }
    for (size_t i = 0; i < ids.n && rc == OTL_OK; i++) {
        if (read_series_info(r, ids.ids[i], &(*out)[*n]))
            (*n)++;
    }
    if (rc == OTL_OK)
        qsort(*out, *n, sizeof(**out), in_order);
    series_list_fini(&ids);
    return rc;
}

enum otl_err export_points(struct read *r, const struct export_opts *o, const struct series_info *s,
                           struct series_points *p, struct otl_error *err)
{
    enum series_kind kind = (enum series_kind)point_kind_of(s->type);

    if (p->kind == kind) {
        series_points_reset(p);
    } else {
        series_points_fini(p);
        series_points_init(p, kind);
    }
    return read_points(r, (int)kind, s->id, o->from, o->to, p, err);
}

enum otl_err export_write_failed(struct otl_error *err)
{
    int e = errno;

    return otl_fail(err, e == ENOSPC || e == EDQUOT ? OTL_EFULL : OTL_EIO,
                    "cannot write the output: %s", strerror(e));
}
