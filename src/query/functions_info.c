/* functions_info.c -- info: adds to each series the labels of the info metric, target_info as a
 * rule, of the same job and instance.
 *
 * The second argument tells by matchers which labels are taken, and by those of __name__ which info
 * metrics. Of info series with the same job and instance the one whose sample is the newest counts.
 *
 * Source: Prometheus 3, "Query functions", info. */
#include <inttypes.h>
#include <stdlib.h>

#include "eval_internal.h"
#include "functions_internal.h"

#include "otlite/matcher.h"

/* The matchers that were written, made ready. */
struct wanted {
    const struct label_matcher *m;
    struct value_matcher *ready; /* n of them */
    size_t n;
    bool names, labels; /* is there one of __name__, one of another label? */
};

static bool is_name(struct bytes name)
{
    return bytes_equal(name, bytes_str(LABEL_NAME));
}

static enum otl_err wanted_init(struct wanted *w, const struct expr *call, struct otl_error *err)
{
    const struct expr *selector =
        call->u.call.n_args > 1 ? eval_unwrap(call->u.call.args[1]) : NULL;
    static const enum match_op ops[] = {[LABEL_EQUAL] = MATCH_EQUAL,
                                        [LABEL_NOT_EQUAL] = MATCH_NOT_EQUAL,
                                        [LABEL_REGEX] = MATCH_REGEX,
                                        [LABEL_NOT_REGEX] = MATCH_NOT_REGEX};
    enum otl_err rc = OTL_OK;
    size_t n;

    *w = (struct wanted){0};
    if (selector == NULL || selector->kind != EXPR_SELECTOR)
        return OTL_OK;
    w->m = selector->u.selector.matchers;
    n = selector->u.selector.n_matchers;
    w->ready = calloc(n + 1, sizeof(*w->ready));
    if (w->ready == NULL)
        return functions_no_memory(err);
    for (; w->n < n && rc == OTL_OK; w->n++) {
        if (is_name(w->m[w->n].name))
            w->names = true;
        else
            w->labels = true;
        rc = value_matcher_init(&w->ready[w->n], ops[w->m[w->n].op], w->m[w->n].value, err);
    }
    return rc;
}

static void wanted_fini(struct wanted *w)
{
    for (size_t i = 0; i < w->n; i++)
        value_matcher_fini(&w->ready[i]);
    free(w->ready);
}

static enum otl_err matches(struct wanted *w, size_t i, struct bytes value, bool *out,
                            struct otl_error *err)
{
    enum otl_err rc = value_matcher_hit(&w->ready[i], value, out, err);

    if (rc == OTL_OK && w->ready[i].negative)
        *out = !*out;
    return rc;
}

/* Is a series of that name an info series itself? */
static enum otl_err is_info(struct wanted *w, struct bytes name, bool *out, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *out = w->names || (!w->labels && bytes_equal(name, bytes_str("target_info")));
    for (size_t i = 0; i < w->n && *out && rc == OTL_OK; i++) {
        if (is_name(w->m[i].name))
            rc = matches(w, i, name, out, err);
    }
    return rc;
}

/* May a series without info stay? Not if a label is asked for that it cannot have. */
static enum otl_err may_lack(struct wanted *w, bool *out, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *out = true;
    for (size_t i = 0; i < w->n && *out && rc == OTL_OK; i++) {
        if (!is_name(w->m[i].name))
            rc = matches(w, i, (struct bytes){0}, out, err);
    }
    return rc;
}

static bool takes_label(const struct wanted *w, struct bytes name)
{
    if (is_name(name))
        return false;
    for (size_t i = 0; i < w->n; i++) {
        if (bytes_equal(w->m[i].name, name))
            return true;
    }
    return !w->labels;
}

/* ---- the info series ---- */

struct collect {
    struct row_sink sink;
    struct eval *eval;
    struct prom_value *out;
};

static enum otl_err collect_row(struct row_sink *s, struct prom_row *row, struct otl_error *err)
{
    struct collect *c = (struct collect *)(void *)s;

    return prom_value_move_row(c->eval, c->out, row, err);
}

/* Their rows; the values are the times of their samples. */
static enum otl_err select_info(struct eval *e, const struct expr *call, const struct wanted *w,
                                struct prom_value *out, struct otl_error *err)
{
    struct label_matcher *m = arena_alloc(e->arena, (w->n + 1) * sizeof(*m));
    struct expr selector = {
        .kind = EXPR_SELECTOR, .type = PROM_VECTOR, .begin = call->begin, .end = call->end};
    struct collect c = {{collect_row}, e, out};
    size_t n = 0;

    if (m == NULL)
        return functions_no_memory(err);
    for (size_t i = 0; i < w->n; i++)
        m[n++] = w->m[i];
    if (!w->names)
        m[n++] =
            (struct label_matcher){bytes_str(LABEL_NAME), bytes_str("target_info"), LABEL_EQUAL};
    selector.u.selector.matchers = m;
    selector.u.selector.n_matchers = n;
    return eval_selector(e, &selector, SELECT_TIMES, &c.sink, err);
}

/* ---- joining ---- */

struct join {
    struct eval *eval;
    struct wanted wanted;
    bool may_lack;
    struct prom_value info;
    struct label_table keys; /* job and instance */
    uint32_t *key_of;        /* of each row of info */
    uint32_t *chosen;        /* rows of info, for one row at one step */
    uint32_t *before;        /* the same of the step before */
    struct label_table rows; /* labels of out's rows */
};

static enum otl_err key(struct join *j, struct labels l, struct labels *out, struct otl_error *err)
{
    const struct bytes names[] = {bytes_str("instance"), bytes_str("job")};

    return labels_keep(j->eval->arena, l, names, 2, out) ? OTL_OK : functions_no_memory(err);
}

static enum otl_err index_info(struct join *j, struct otl_error *err)
{
    const size_t n = j->info.n_rows;
    enum otl_err rc = OTL_OK;

    j->key_of = calloc(n + 1, sizeof(*j->key_of));
    j->chosen = calloc(n + 1, sizeof(*j->chosen));
    j->before = calloc(n + 1, sizeof(*j->before));
    if (j->key_of == NULL || j->chosen == NULL || j->before == NULL)
        return functions_no_memory(err);
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        struct labels l;
        bool is_new;

        rc = key(j, j->info.rows[i].labels, &l, err);
        if (rc == OTL_OK && !label_table_add(&j->keys, l, &j->key_of[i], &is_new))
            rc = functions_no_memory(err);
    }
    return rc;
}

/* The newest info series of each name with that key, in j->chosen. */
static enum otl_err choose(struct join *j, uint32_t wanted_key, size_t step, size_t *n,
                           struct otl_error *err)
{
    const struct bytes name = bytes_str(LABEL_NAME);

    *n = 0;
    for (uint32_t i = 0; i < j->info.n_rows; i++) {
        const struct prom_row *row = &j->info.rows[i];
        size_t k = 0;

        if (j->key_of[i] != wanted_key || prom_is_stale(row->v[step]))
            continue;
        while (k < *n && !bytes_equal(labels_get(j->info.rows[j->chosen[k]].labels, name),
                                      labels_get(row->labels, name)))
            k++;
        if (k < *n) {
            const struct prom_row *other = &j->info.rows[j->chosen[k]];

            if (other->v[step] == row->v[step])
                return otl_fail(err, OTL_EBADREQUEST,
                                "found duplicate series for info metric: two series of one job and "
                                "instance have a sample at %" PRId64,
                                (int64_t)(row->v[step] * 1000));
            if (other->v[step] > row->v[step])
                continue;
        } else {
            (*n)++;
        }
        j->chosen[k] = i;
    }
    return OTL_OK;
}

/* The labels of base and of the n chosen info series. */
static enum otl_err joined_labels(struct join *j, struct labels base, size_t n, struct labels *out,
                                  struct otl_error *err)
{
    *out = base;
    for (size_t k = 0; k < n; k++) {
        const struct labels from = j->info.rows[j->chosen[k]].labels;

        for (size_t i = 0; i < from.n; i++) {
            const struct bytes name = from.l[i].name;
            const struct bytes there = labels_get(*out, name);

            if (!takes_label(&j->wanted, name) || labels_get(base, name).n > 0)
                continue;
            if (there.n > 0 && !bytes_equal(there, from.l[i].value))
                return otl_fail(err, OTL_EBADREQUEST, "conflicting label: %.*s",
                                (int)(name.n > 200 ? 200 : name.n), (const char *)name.p);
            if (!labels_set(j->eval->arena, *out, name, from.l[i].value, out))
                return functions_no_memory(err);
        }
    }
    return OTL_OK;
}

static enum otl_err put_joined(struct join *j, struct prom_row *base, size_t step, size_t at,
                               struct prom_value *out, struct otl_error *err)
{
    const struct sample s = eval_sample(base, step), there = eval_sample(&out->rows[at], step);

    if (!sample_is_absent(&there))
        return otl_fail(err, OTL_EBADREQUEST,
                        "vector cannot contain metrics with the same labelset");
    if (s.h != NULL)
        base->h[step] = NULL;
    return eval_put(j->eval, &out->rows[at], step, s, err);
}

static enum otl_err join_row(struct join *j, struct prom_row *base, struct prom_value *out,
                             struct otl_error *err)
{
    size_t n_before = SIZE_MAX, at = 0;
    struct labels base_key, l;
    uint32_t wanted_key;
    bool info;
    enum otl_err rc =
        is_info(&j->wanted, labels_get(base->labels, bytes_str(LABEL_NAME)), &info, err);

    if (rc == OTL_OK)
        rc = key(j, base->labels, &base_key, err);
    if (rc != OTL_OK)
        return rc;
    wanted_key = info || base_key.n == 0 ? UINT32_MAX : label_table_find(&j->keys, base_key);
    for (size_t i = 0; i < base->n && rc == OTL_OK; i++) {
        const struct sample s = eval_sample(base, i);
        size_t n = 0;

        if (sample_is_absent(&s))
            continue;
        if (wanted_key != UINT32_MAX)
            rc = choose(j, wanted_key, i, &n, err);
        if (rc != OTL_OK || (n == 0 && !info && !j->may_lack))
            continue;
        /* As a rule it is the same info series as before. */
        if (n != n_before || memcmp(j->before, j->chosen, n * sizeof(*j->chosen)) != 0) {
            uint32_t number;
            bool is_new;

            rc = joined_labels(j, base->labels, n, &l, err);
            if (rc != OTL_OK)
                break;
            if (!label_table_add(&j->rows, l, &number, &is_new))
                return functions_no_memory(err);
            at = number;
            if (is_new && eval_add_row(j->eval, out, l, err) == NULL)
                return err->code;
            memcpy(j->before, j->chosen, n * sizeof(*j->chosen));
            n_before = n;
        }
        rc = put_joined(j, base, i, at, out, err);
    }
    return rc;
}

MATRIX_FUNCTION(fn_info)
{
    struct join j = {.eval = e, .info = {.type = PROM_VECTOR}};
    enum otl_err rc = wanted_init(&j.wanted, call, err);

    (void)n;
    if (rc == OTL_OK)
        rc = may_lack(&j.wanted, &j.may_lack, err);
    if (rc == OTL_OK && args[0].n_rows > 0)
        rc = select_info(e, call, &j.wanted, &j.info, err);
    if (rc == OTL_OK)
        rc = index_info(&j, err);
    for (size_t r = 0; r < args[0].n_rows && rc == OTL_OK; r++)
        rc = join_row(&j, &args[0].rows[r], out, err);
    wanted_fini(&j.wanted);
    eval_free(e, &j.info);
    label_table_fini(&j.keys);
    label_table_fini(&j.rows);
    free(j.key_of);
    free(j.chosen);
    free(j.before);
    return rc;
}
