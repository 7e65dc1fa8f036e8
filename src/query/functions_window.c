/* functions_window.c -- windows that hold floats and histograms. */
#include <stdlib.h>

#include "functions_internal.h"

enum otl_err functions_no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "query: no memory");
}

size_t window_histograms(const struct range_window *w)
{
    size_t n = 0;

    for (size_t i = 0; w->h != NULL && i < w->n; i++)
        n += w->h[i] != NULL;
    return n;
}

enum otl_err window_floats(const struct range_window *w, struct window_floats *out,
                           struct otl_error *err)
{
    const size_t histograms = window_histograms(w);
    int64_t *t;
    double *v;

    *out = (struct window_floats){w->t, w->v, w->n, false, NULL};
    if (histograms == 0)
        return OTL_OK;
    out->n = 0;
    if (histograms == w->n)
        return OTL_OK;
    out->mixed = true;
    v = malloc((w->n - histograms) * (sizeof(*v) + sizeof(*t)));
    if (v == NULL)
        return functions_no_memory(err);
    t = (int64_t *)(void *)(v + (w->n - histograms));
    for (size_t i = 0; i < w->n; i++) {
        if (w->h[i] == NULL) {
            t[out->n] = w->t[i];
            v[out->n++] = w->v[i];
        }
    }
    out->own = v;
    out->t = t;
    out->v = v;
    return OTL_OK;
}

enum otl_err window_floats_end(const struct function_call *c, struct window_floats *f,
                               struct otl_error *err)
{
    free(f->own);
    f->own = NULL;
    if (!f->mixed)
        return OTL_OK;
    return eval_info(c->eval, call_arg(c, 0), err,
                     "ignored histograms in a range containing both floats and histograms for "
                     "metric name \"%.*s\"",
                     CALL_NAME(c));
}

struct call_name call_name(const struct function_call *c)
{
    const struct bytes name = labels_get(c->labels, bytes_str(LABEL_NAME));

    return (struct call_name){name.n > 200 ? 200 : (int)name.n,
                              name.n > 0 ? name.p : (const uint8_t *)""};
}

const struct expr *call_arg(const struct function_call *c, size_t i)
{
    return i < c->expr->u.call.n_args ? c->expr->u.call.args[i] : c->expr;
}

enum otl_err warn_mixed(const struct function_call *c, struct otl_error *err)
{
    return eval_warn(c->eval, call_arg(c, 0), err,
                     "encountered a mix of histograms and floats for metric name \"%.*s\"",
                     CALL_NAME(c));
}
