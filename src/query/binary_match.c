/* binary_match.c -- two vectors: which sample of one side belongs to which of the other.
 *
 * Whom a row may meet is decided once for all steps, by a number for its matching labels. Whether
 * two rows of one number collide is decided at each step, as a series that is absent there is in
 * nobody's way. */
#include <stdlib.h>

#include "eval_internal.h"
#include "promql_internal.h"

#define NONE UINT32_MAX
enum { ROWS_A_CHECK = 1024 };

struct side {
    struct prom_value rows;
    uint32_t *match;  /* of each row, the number of its matching labels */
    uint32_t *result; /* and of the result's that it last came to; NONE: none yet */
};

#define NO_STEP SIZE_MAX
/* What comes of samples, by labels. */
struct result {
    uint32_t row;       /* of out; NONE: all was filtered out as yet */
    uint32_t match;     /* matching labels of the pair that came to it last, */
    size_t met_step;    /* at this step */
    size_t filled_step; /* the last one at which it got a sample */
};

struct joining {
    struct eval *v;
    const struct expr *e;
    struct side left, right;
    struct label_table matches; /* matching labels */
    struct label_table results; /* labels of out's rows */
    struct prom_value *out;
    /* By number of matching labels, at the step under way: */
    uint32_t *one;            /* the row of the "one" side */
    uint32_t *seen;           /* one-to-one: the row of the other side that met it */
    uint32_t *last_one;       /* by row of the "many" side: the other row of its last result */
    struct result *by_result; /* by number of a result's labels */
    size_t cap_results;
};

/* ---- labels ---- */

static enum otl_err matching_labels(struct joining *j, struct labels l, struct labels *out,
                                    struct otl_error *err)
{
    const struct matching *m = &j->e->u.binary.matching;

    if (m->on)
        return labels_keep(j->v->arena, l, m->labels, m->n_labels, out) ? OTL_OK
                                                                        : eval_no_memory(err);
    if (!labels_drop(j->v->arena, l, m->labels, m->n_labels, out))
        return eval_no_memory(err);
    return eval_drop_name(j->v, *out, out, err);
}

static enum otl_err number_rows(struct joining *j, struct side *s, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    s->match = calloc(s->rows.n_rows + 1, sizeof(*s->match));
    s->result = malloc((s->rows.n_rows + 1) * sizeof(*s->result));
    if (s->match == NULL || s->result == NULL)
        return eval_no_memory(err);
    memset(s->result, 0xff, (s->rows.n_rows + 1) * sizeof(*s->result));
    for (size_t i = 0; i < s->rows.n_rows && rc == OTL_OK; i++) {
        struct labels l;
        bool is_new;

        if (i % ROWS_A_CHECK == 0)
            rc = read_check(j->v->read, err);
        if (rc == OTL_OK)
            rc = matching_labels(j, s->rows.rows[i].labels, &l, err);
        if (rc == OTL_OK && !label_table_add(&j->matches, l, &s->match[i], &is_new))
            rc = eval_no_memory(err);
    }
    return rc;
}

/* What the many side's row and the one side's come to. */
static enum otl_err result_labels(struct joining *j, struct labels many, struct labels one,
                                  struct labels *out, struct otl_error *err)
{
    const struct matching *m = &j->e->u.binary.matching;
    struct arena *a = j->v->arena;
    bool ok = true;
    enum otl_err rc = OTL_OK;

    *out = many;
    if (!binary_is_comparison(j->e->u.binary.op))
        rc = eval_drop_name(j->v, *out, out, err);
    if (rc != OTL_OK)
        return rc;
    if (m->cardinality == ONE_TO_ONE)
        ok = m->on ? labels_keep(a, *out, m->labels, m->n_labels, out)
                   : labels_drop(a, *out, m->labels, m->n_labels, out);
    for (size_t i = 0; i < m->n_include && ok; i++)
        ok = labels_set(a, *out, m->include[i], labels_get(one, m->include[i]), out);
    if (!ok)
        return eval_no_memory(err);
    /* bool takes a name that was included, too. */
    return j->e->u.binary.is_bool ? eval_drop_name(j->v, *out, out, err) : OTL_OK;
}

/* The number of a result's labels. */
static enum otl_err result_of(struct joining *j, struct labels labels, uint32_t *out,
                              struct otl_error *err)
{
    bool is_new;

    if (!label_table_add(&j->results, labels, out, &is_new))
        return eval_no_memory(err);
    if (*out >= j->cap_results) {
        size_t cap = j->cap_results == 0 ? 64 : 2 * j->cap_results;
        struct result *more = reallocarray(j->by_result, cap, sizeof(*more));

        if (more == NULL)
            return eval_no_memory(err);
        j->by_result = more;
        j->cap_results = cap;
    }
    if (is_new)
        j->by_result[*out] =
            (struct result){.row = NONE, .met_step = NO_STEP, .filled_step = NO_STEP};
    return OTL_OK;
}

/* The row of a result, made when its first sample comes: a filter may leave nothing of most. */
static enum otl_err row_of(struct joining *j, uint32_t result, struct prom_row **out,
                           struct otl_error *err)
{
    struct result *r = &j->by_result[result];

    if (r->row == NONE) {
        if (eval_add_row(j->v, j->out, j->results.keys[result], err) == NULL)
            return err->code;
        r->row = (uint32_t)(j->out->n_rows - 1);
    }
    *out = &j->out->rows[r->row];
    return OTL_OK;
}

/* ---- and, or, unless ---- */

static enum otl_err copy_to(struct joining *j, const struct side *side, size_t r, size_t i,
                            struct otl_error *err)
{
    const struct prom_row *row = &side->rows.rows[r];
    struct prom_row *to;
    enum otl_err rc = OTL_OK;

    if (side->result[r] == NONE)
        rc = result_of(j, row->labels, &side->result[r], err);
    if (rc == OTL_OK)
        rc = row_of(j, side->result[r], &to, err);
    return rc == OTL_OK ? eval_put_copy(j->v, to, i, eval_sample(row, i), err) : rc;
}

static bool is_there(const struct prom_row *row, size_t i)
{
    struct sample s = eval_sample(row, i);

    return !sample_is_absent(&s);
}

static enum otl_err set_step(struct joining *j, size_t i, struct otl_error *err)
{
    enum binary_op op = j->e->u.binary.op;
    const struct side *mark = op == OP_OR ? &j->left : &j->right;
    const struct side *pick = op == OP_OR ? &j->right : &j->left;
    enum otl_err rc = read_check(j->v->read, err);

    memset(j->one, 0xff, j->matches.n * sizeof(*j->one));
    for (size_t r = 0; r < mark->rows.n_rows && rc == OTL_OK; r++) {
        if (!is_there(&mark->rows.rows[r], i))
            continue;
        j->one[mark->match[r]] = (uint32_t)r;
        if (op == OP_OR)
            rc = copy_to(j, mark, r, i, err);
    }
    for (size_t r = 0; r < pick->rows.n_rows && rc == OTL_OK; r++) {
        bool marked = j->one[pick->match[r]] != NONE;

        if (is_there(&pick->rows.rows[r], i) && marked == (op == OP_AND))
            rc = copy_to(j, pick, r, i, err);
    }
    return rc;
}

/* ---- arithmetic and comparisons ---- */

static enum otl_err duplicates(struct joining *j, const struct side *one, size_t a, size_t b,
                               struct otl_error *err)
{
    struct buf match = {0}, first = {0}, second = {0};
    enum otl_err rc;

    labels_print(&match, j->matches.keys[one->match[a]]);
    labels_print(&first, one->rows.rows[a].labels);
    labels_print(&second, one->rows.rows[b].labels);
    rc = otl_fail(err, OTL_EBADREQUEST,
                  "found duplicate series for the match group %.120s on the %s hand-side of the "
                  "operation: [%.120s, %.120s];many-to-many matching not allowed: matching labels "
                  "must be unique on one side",
                  buf_cstr(&match), one == &j->left ? "left" : "right", buf_cstr(&first),
                  buf_cstr(&second));
    buf_fini(&match);
    buf_fini(&first);
    buf_fini(&second);
    return rc;
}

/* The row of the one side for each number. */
static enum otl_err mark_one(struct joining *j, const struct side *one, size_t i,
                             struct otl_error *err)
{
    memset(j->one, 0xff, j->matches.n * sizeof(*j->one));
    for (size_t r = 0; r < one->rows.n_rows; r++) {
        uint32_t match = one->match[r];

        if (!is_there(&one->rows.rows[r], i))
            continue;
        if (j->one[match] != NONE)
            return duplicates(j, one, r, j->one[match], err);
        j->one[match] = (uint32_t)r;
    }
    return OTL_OK;
}

/* The result that the pair comes to. */
static enum otl_err place(struct joining *j, const struct side *many, const struct side *one,
                          uint32_t m, uint32_t o, struct otl_error *err)
{
    struct labels labels;
    enum otl_err rc;

    if (many->result[m] != NONE && j->last_one[m] == o)
        return OTL_OK;
    rc = result_labels(j, many->rows.rows[m].labels, one->rows.rows[o].labels, &labels, err);
    if (rc == OTL_OK)
        rc = result_of(j, labels, &many->result[m], err);
    j->last_one[m] = o;
    return rc;
}

/* A pair that met must be the only one, also where a filter leaves nothing of it. */
static enum otl_err check_unique(struct joining *j, uint32_t match, uint32_t m, struct result *r,
                                 size_t i, struct otl_error *err)
{
    if (j->e->u.binary.matching.cardinality == ONE_TO_ONE) {
        if (j->seen[match] != NONE)
            return otl_fail(err, OTL_EBADREQUEST,
                            "multiple matches for labels: many-to-one matching must be explicit "
                            "(group_left/group_right)");
        j->seen[match] = m;
    } else if (r->met_step == i && r->match == match) {
        return otl_fail(err, OTL_EBADREQUEST,
                        "multiple matches for labels: grouping labels must ensure unique matches");
    }
    r->met_step = i;
    r->match = match;
    return OTL_OK;
}

/* A sample, which it takes over, to its result. */
static enum otl_err fill(struct joining *j, uint32_t result, size_t i, struct sample s,
                         struct otl_error *err)
{
    struct result *r = &j->by_result[result];
    struct prom_row *row = NULL;
    enum otl_err rc = OTL_OK;

    if (r->filled_step == i)
        rc = otl_fail(err, OTL_EBADREQUEST, "vector cannot contain metrics with the same labelset");
    if (rc == OTL_OK)
        rc = row_of(j, result, &row, err);
    if (rc != OTL_OK) {
        histogram_free(s.h);
        return rc;
    }
    r->filled_step = i;
    return eval_put(j->v, row, i, s, err);
}

static enum otl_err meet(struct joining *j, const struct side *many, const struct side *one,
                         uint32_t m, uint32_t o, size_t i, struct otl_error *err)
{
    const struct expr *e = j->e;
    bool swapped = e->u.binary.matching.cardinality == ONE_TO_MANY;
    struct sample x = eval_sample(&many->rows.rows[m], i), y = eval_sample(&one->rows.rows[o], i);
    const struct sample *l = swapped ? &y : &x, *r = swapped ? &x : &y;
    struct sample out;
    bool keep, comparable;
    enum otl_err rc = binary_samples(j->v, e, l, r, &out, &keep, err);

    if (rc != OTL_OK)
        return rc;
    comparable = (l->h == NULL) == (r->h == NULL) &&
                 (l->h == NULL || e->u.binary.op == OP_EQ || e->u.binary.op == OP_NE);
    if (!keep && !comparable)
        return OTL_OK;
    if (e->u.binary.is_bool) {
        histogram_free(out.h);
        out = (struct sample){keep ? 1 : 0, NULL};
        keep = true;
    }
    rc = place(j, many, one, m, o, err);
    if (rc == OTL_OK)
        rc = check_unique(j, many->match[m], m, &j->by_result[many->result[m]], i, err);
    if (rc == OTL_OK && keep)
        return fill(j, many->result[m], i, out, err);
    histogram_free(out.h);
    return rc;
}

static bool any_at(const struct side *s, size_t i)
{
    for (size_t r = 0; r < s->rows.n_rows; r++) {
        if (is_there(&s->rows.rows[r], i))
            return true;
    }
    return false;
}

static enum otl_err join_step(struct joining *j, size_t i, struct otl_error *err)
{
    bool swapped = j->e->u.binary.matching.cardinality == ONE_TO_MANY;
    const struct side *many = swapped ? &j->right : &j->left;
    const struct side *one = swapped ? &j->left : &j->right;
    enum otl_err rc = read_check(j->v->read, err);

    /* Where one side has nothing, nobody asks whether the other one is unique. */
    if (rc != OTL_OK || !any_at(many, i))
        return rc;
    rc = mark_one(j, one, i, err);
    memset(j->seen, 0xff, j->matches.n * sizeof(*j->seen));
    for (size_t m = 0; m < many->rows.n_rows && rc == OTL_OK; m++) {
        uint32_t o = j->one[many->match[m]];

        if (o != NONE && is_there(&many->rows.rows[m], i))
            rc = meet(j, many, one, (uint32_t)m, o, i, err);
    }
    return rc;
}

/* ---- all ---- */

static enum otl_err prepare(struct joining *j, struct otl_error *err)
{
    const struct expr *e = j->e;
    size_t many;
    enum otl_err rc = eval_whole(j->v, e->u.binary.left, &j->left.rows, err);

    if (rc == OTL_OK)
        rc = eval_whole(j->v, e->u.binary.right, &j->right.rows, err);
    if (rc == OTL_OK)
        rc = number_rows(j, &j->left, err);
    if (rc == OTL_OK)
        rc = number_rows(j, &j->right, err);
    if (rc != OTL_OK)
        return rc;
    many = j->left.rows.n_rows + j->right.rows.n_rows + 1;
    j->one = calloc(j->matches.n + 1, sizeof(*j->one));
    j->seen = calloc(j->matches.n + 1, sizeof(*j->seen));
    j->last_one = calloc(many, sizeof(*j->last_one));
    return j->one == NULL || j->seen == NULL || j->last_one == NULL ? eval_no_memory(err) : OTL_OK;
}

enum otl_err eval_two_vectors(struct eval *v, const struct expr *e, struct prom_value *out,
                              struct otl_error *err)
{
    struct joining j = {.v = v,
                        .e = e,
                        .out = out,
                        .left = {.rows = {.type = PROM_VECTOR}},
                        .right = {.rows = {.type = PROM_VECTOR}}};
    enum otl_err rc = prepare(&j, err);

    out->type = PROM_VECTOR;
    for (size_t i = 0; i < v->steps && rc == OTL_OK; i++)
        rc = e->u.binary.op >= OP_AND ? set_step(&j, i, err) : join_step(&j, i, err);
    eval_free(v, &j.left.rows);
    eval_free(v, &j.right.rows);
    free(j.left.match);
    free(j.right.match);
    free(j.left.result);
    free(j.right.result);
    label_table_fini(&j.matches);
    label_table_fini(&j.results);
    free(j.one);
    free(j.seen);
    free(j.last_one);
    free(j.by_result);
    return rc;
}
