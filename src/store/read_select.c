/* read_select.c -- the series of a read (read.h): selecting, what they are, their values. The work
 * is the label index's; here it meets the read's snapshot, its limits and its budget. */
#include "read_internal.h"

enum otl_err read_select(struct read *r, int64_t project_id, const struct matcher *m, size_t n,
                         struct series_list *out, struct otl_error *err)
{
    struct label_check check = read_label_check(r);
    size_t before = out->cap;
    struct label_view *v;
    enum otl_err rc = read_labels(r, &v, err);

    if (rc == OTL_OK)
        rc = label_view_select(v, project_id, m, n, &check, out, err);
    /* What a list that is used again had already is charged already. */
    if (rc == OTL_OK && out->cap > before)
        rc = read_charge(r, (int64_t)((out->cap - before) * sizeof(*out->ids)), err);
    return rc;
}

bool read_series_info(struct read *r, int64_t series_id, struct series_info *out)
{
    struct otl_error ignored;
    struct label_view *v;

    return read_labels(r, &v, &ignored) == OTL_OK && label_view_series(v, series_id, out);
}

enum otl_err read_values(struct read *r, int64_t project_id, const struct series_list *l,
                         enum match_what what, struct bytes key,
                         enum otl_err (*emit)(void *arg, struct bytes value, struct otl_error *err),
                         void *arg, struct otl_error *err)
{
    struct label_check check = read_label_check(r);
    struct label_view *v;
    enum otl_err rc = read_labels(r, &v, err);

    return rc == OTL_OK ? label_view_values(v, project_id, l, what, key, &check, emit, arg, err)
                        : rc;
}
