/* functions_labels.c -- label_replace and label_join, which change labels and no value.
 *
 * Source: Prometheus 3, "Query functions". */
#include "functions_internal.h"

#include "otlite/regex.h"

/* Any UTF-8 text is a name, but none is not. */
static bool is_label_name(struct bytes name)
{
    return name.n > 0 && utf8_valid(name);
}

static enum otl_err bad(struct otl_error *err, const char *what, const char *function,
                        struct bytes text)
{
    return otl_fail(err, OTL_EBADREQUEST, "invalid %s in %s(): %.*s", what, function,
                    (int)(text.n > 300 ? 300 : text.n), text.n > 0 ? (const char *)text.p : "");
}

/* Give the row the label, and out the row. An empty value takes the label away. */
static enum otl_err relabel(struct eval *e, struct prom_row *row, struct bytes name,
                            const struct buf *value, struct otl_error *err)
{
    struct bytes kept;

    if (value->failed || !arena_dup(e->arena, buf_bytes(value), &kept) ||
        !labels_set(e->arena, row->labels, name, kept, &row->labels))
        return functions_no_memory(err);
    return OTL_OK;
}

MATRIX_FUNCTION(fn_label_replace)
{
    const struct bytes to = args[1].string, replacement = args[2].string;
    const struct bytes from = args[3].string, pattern = args[4].string;
    struct otl_error why;
    struct regex *re = NULL;
    struct buf value = {0};
    enum otl_err rc = regex_new_capturing(pattern, &re, &why);

    (void)call;
    (void)n;
    if (rc == OTL_ENOMEM)
        return functions_no_memory(err);
    if (rc != OTL_OK)
        return bad(err, "regular expression", "label_replace", pattern);
    if (!is_label_name(to))
        rc = bad(err, "destination label name", "label_replace", to);
    for (size_t r = 0; r < args[0].n_rows && rc == OTL_OK; r++) {
        struct prom_row *row = &args[0].rows[r];
        bool hit = false;

        buf_reset(&value);
        rc = regex_replace(re, labels_get(row->labels, from), replacement, &hit, &value, err);
        if (rc == OTL_OK && hit)
            rc = relabel(e, row, to, &value, err);
        if (rc == OTL_OK)
            rc = prom_value_move_row(e, out, row, err);
    }
    buf_fini(&value);
    regex_free(re);
    return rc;
}

MATRIX_FUNCTION(fn_label_join)
{
    const struct bytes to = args[1].string, separator = args[2].string;
    struct buf value = {0};
    enum otl_err rc = OTL_OK;

    (void)call;
    for (size_t i = 3; i < n; i++) {
        if (!is_label_name(args[i].string))
            return bad(err, "source label name", "label_join", args[i].string);
    }
    if (!is_label_name(to))
        return bad(err, "destination label name", "label_join", to);
    for (size_t r = 0; r < args[0].n_rows && rc == OTL_OK; r++) {
        struct prom_row *row = &args[0].rows[r];

        buf_reset(&value);
        for (size_t i = 3; i < n; i++) {
            if (i > 3)
                buf_add_bytes(&value, separator);
            buf_add_bytes(&value, labels_get(row->labels, args[i].string));
        }
        rc = relabel(e, row, to, &value, err);
        if (rc == OTL_OK)
            rc = prom_value_move_row(e, out, row, err);
    }
    buf_fini(&value);
    return rc;
}
