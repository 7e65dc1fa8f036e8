/* querier_match.c -- matchers of labels as people see them: tried on final labels, and made into
 * matchers of the store that let through all that can match.
 *
 * A matcher that fits the empty text is tried on final labels only: the store cannot know which
 * labels a series lacks. Of the others the store's matcher is exact or wider, and where it is not
 * certain which attribute a label comes from there is none. */
#include <math.h>
#include <stdlib.h>

#include "format_number.h"
#include "querier_internal.h"

/* Keys beyond these are not looked through: only the final labels are tried then. */
enum { MAX_KEYS = 8192 };

/* ---- compiling ---- */

static bool is(struct bytes b, const char *text)
{
    return bytes_equal(b, bytes_str(text));
}

static bool parse_bound(struct bytes text, double *out)
{
    char copy[64];
    char *end;

    if (text.n == 0 || text.n >= sizeof(copy))
        return false;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    if (strspn(copy, "+-0123456789.eEInf") != text.n)
        return false;
    *out = strtod(copy, &end);
    return *end == '\0';
}

enum otl_err matchers_compile(const struct label_matcher *m, size_t n,
                              struct compiled_matchers *out, struct otl_error *err)
{
    static const enum match_op ops[] = {
        [LABEL_EQUAL] = MATCH_EQUAL,
        [LABEL_NOT_EQUAL] = MATCH_NOT_EQUAL,
        [LABEL_REGEX] = MATCH_REGEX,
        [LABEL_NOT_REGEX] = MATCH_NOT_REGEX,
    };
    enum otl_err rc = OTL_OK;

    *out = (struct compiled_matchers){.c = calloc(n + 1, sizeof(*out->c))};
    if (out->c == NULL)
        return querier_no_memory(err);
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        struct compiled_matcher *c = &out->c[i];

        c->m = &m[i];
        c->is_name = is(m[i].name, LABEL_NAME);
        c->is_bound = is(m[i].name, "le") || is(m[i].name, "quantile");
        c->has_number = c->is_bound && (m[i].op == LABEL_EQUAL || m[i].op == LABEL_NOT_EQUAL) &&
                        parse_bound(m[i].value, &c->number);
        rc = value_matcher_init(&c->vm, ops[m[i].op], m[i].value, err);
        if (rc == OTL_OK)
            out->n++;
    }
    if (rc != OTL_OK)
        matchers_fini(out);
    return rc;
}

void matchers_fini(struct compiled_matchers *c)
{
    for (size_t i = 0; i < c->n; i++)
        value_matcher_fini(&c->c[i].vm);
    free(c->c);
    *c = (struct compiled_matchers){0};
}

static enum otl_err try_value(struct compiled_matcher *c, struct bytes value, bool *out,
                              struct otl_error *err)
{
    bool hit = false;
    enum otl_err rc = value_matcher_hit(&c->vm, value, &hit, err);

    *out = hit != c->vm.negative;
    return rc;
}

/* ---- final labels ---- */

/* A key of the resource that labels are made from. */
static bool is_shown_key(const struct querier *q, struct bytes key)
{
    return is(key, "service.name") || is(key, "service.namespace") ||
           is(key, "service.instance.id") || is_promoted(&q->shared->opts, key);
}

/* The value of a label: as it is shown, by the attribute's own key, or by what it would be called
 * with underscores. q->text may hold it. */
static struct bytes find_value(struct querier *q, struct bytes name, struct labels base,
                               const struct series_info *s)
{
    struct bytes value = labels_get(base, name);
    struct attr_value v;

    if (value.n > 0 || s == NULL)
        return value;
    buf_reset(&q->text);
    if (attrs_get(s->attributes, name, &v) ||
        (attrs_get(s->resource_attributes, name, &v) && is_shown_key(q, name))) {
        label_value_text(&v, &q->text);
        return buf_bytes(&q->text);
    }
    if (q->shared->opts.strategy == NAMES_UNDERSCORES_WITH_SUFFIXES ||
        q->shared->opts.strategy == NAMES_UNDERSCORES_WITHOUT_SUFFIXES)
        return value;
    for (size_t i = 0; i < base.n; i++) {
        buf_reset(&q->text);
        if (prom_label_name(&q->text, NAMES_UNDERSCORES_WITH_SUFFIXES, base.l[i].name) &&
            bytes_equal(buf_bytes(&q->text), name))
            return base.l[i].value;
    }
    return value;
}

enum otl_err matchers_try(struct querier *q, const struct compiled_matchers *c, struct labels base,
                          const struct series_info *s, struct bytes skip, bool *out,
                          struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *out = true;
    for (size_t i = 0; i < c->n && *out && rc == OTL_OK; i++) {
        if (c->c[i].is_name || (skip.n > 0 && bytes_equal(c->c[i].m->name, skip)))
            continue;
        rc = try_value(&c->c[i], find_value(q, c->c[i].m->name, base, s), out, err);
        if (q->text.failed)
            return querier_no_memory(err);
    }
    return rc;
}

/* "5" is written "5.0" too, by who is used to what Prometheus 3 makes of scraped histograms. */
static enum otl_err try_bound(struct compiled_matcher *c, double bound, struct bytes text,
                              bool *out, struct otl_error *err)
{
    bool hit = false;
    enum otl_err rc = OTL_OK;
    char longer[64];

    if (c->has_number) {
        *out = (c->number == bound) != c->vm.negative;
        return OTL_OK;
    }
    rc = value_matcher_hit(&c->vm, text, &hit, err);
    if (rc == OTL_OK && !hit && isfinite(bound) && text.n + 3 < sizeof(longer) &&
        memchr(text.p, '.', text.n) == NULL) {
        memcpy(longer, text.p, text.n);
        memcpy(longer + text.n, ".0", 2);
        rc = value_matcher_hit(&c->vm, bytes_of(longer, text.n + 2), &hit, err);
    }
    *out = hit != c->vm.negative;
    return rc;
}

enum otl_err matchers_try_bound(const struct compiled_matchers *c, struct bytes label, double bound,
                                struct bytes text, bool *out, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *out = true;
    for (size_t i = 0; i < c->n && *out && rc == OTL_OK; i++) {
        if (bytes_equal(c->c[i].m->name, label))
            rc = try_bound(&c->c[i], bound, text, out, err);
    }
    return rc;
}

/* ---- names ---- */

/* All positive ones, or all negative ones, of the name prefix + suffix. */
static enum otl_err try_name(struct querier *q, const struct compiled_matchers *c, bool negative,
                             struct bytes prefix, const char *suffix, bool *out,
                             struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *out = true;
    buf_reset(&q->text);
    buf_add_bytes(&q->text, prefix);
    buf_add_str(&q->text, suffix);
    if (q->text.failed)
        return querier_no_memory(err);
    for (size_t i = 0; i < c->n && *out && rc == OTL_OK; i++) {
        if (c->c[i].is_name && c->c[i].vm.negative == negative)
            rc = try_value(&c->c[i], buf_bytes(&q->text), out, err);
    }
    return rc;
}

enum otl_err matchers_try_name(struct querier *q, const struct compiled_matchers *c,
                               struct bytes name, bool *out, struct otl_error *err)
{
    enum otl_err rc = try_name(q, c, false, name, "", out, err);

    return rc == OTL_OK && *out ? try_name(q, c, true, name, "", out, err) : rc;
}

/* A variant of f by the names of one strategy, or by all others. */
static enum otl_err fits(struct querier *q, const struct compiled_matchers *c,
                         const struct family *f, enum variant v, bool others, bool *out,
                         struct otl_error *err)
{
    const enum name_strategy shown = q->shared->opts.strategy;
    enum otl_err rc = OTL_OK;

    *out = false;
    for (int i = 0; i <= NAME_STRATEGIES && !*out && rc == OTL_OK; i++) {
        if ((i == (int)shown) == others || f->names[i].n == 0)
            continue;
        rc = try_name(q, c, false, f->names[i], variant_suffix(v), out, err);
    }
    if (rc == OTL_OK && *out)
        rc = try_name(q, c, true, f->names[shown], variant_suffix(v), out, err);
    return rc;
}

static enum otl_err pick(struct querier *q, const struct compiled_matchers *c, bool others,
                         uint8_t *variants, uint32_t n, bool *any, struct otl_error *err)
{
    const struct querier_opts *o = &q->shared->opts;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; i < n && rc == OTL_OK; i++) {
        const struct family *f = family_table_get(&q->shared->families, i);
        unsigned has = family_variants(f, o->classic_from_exponential);

        if (i % 1024 == 0)
            rc = read_check(q->r, err);
        if (f->names[o->strategy].n == 0 || (q->project_id != 0 && f->project_id != q->project_id))
            continue;
        for (int v = 0; v < VARIANTS && rc == OTL_OK; v++) {
            bool fit = false;

            if ((has & 1u << v) != 0)
                rc = fits(q, c, f, (enum variant)v, others, &fit, err);
            if (fit)
                variants[i] |= (uint8_t)(1u << v);
            *any = *any || fit;
        }
    }
    return rc;
}

enum otl_err matchers_pick(struct querier *q, const struct compiled_matchers *c, uint8_t **variants,
                           uint32_t *n, bool *all, struct otl_error *err)
{
    bool any = false, positive = false;
    enum otl_err rc = family_table_refresh(&q->shared->families, q->r, err);

    if (rc != OTL_OK)
        return rc;
    *all = true;
    for (size_t i = 0; i < c->n; i++) {
        *all = *all && !c->c[i].is_name;
        positive = positive || (c->c[i].is_name && !c->c[i].vm.negative);
    }
    *n = family_table_size(&q->shared->families);
    *variants = calloc((size_t)*n + 1, sizeof(**variants));
    if (*variants == NULL)
        return querier_no_memory(err);
    rc = matchers_try_name(q, c, bytes_str(TARGET_INFO), &any, err);
    if (rc == OTL_OK)
        rc = pick(q, c, false, *variants, *n, &any, err);
    /* Other names count where nothing is shown by this one, so that what is written for shown names
     * gets no more than it would from Prometheus. */
    if (rc == OTL_OK && !any && positive)
        rc = pick(q, c, true, *variants, *n, &any, err);
    if (rc != OTL_OK) {
        free(*variants);
        *variants = NULL;
    }
    return rc;
}

/* ---- the store's matchers ---- */

struct key_list {
    struct querier *q;
    struct bytes *keys;
    size_t n, cap;
};

static enum otl_err add_key(void *arg, struct bytes key, struct otl_error *err)
{
    struct key_list *l = arg;

    if (l->n > MAX_KEYS)
        return OTL_OK;
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 64 : 2 * l->cap;
        struct bytes *more = arena_alloc(l->q->arena, cap * sizeof(*more));

        if (more == NULL)
            return querier_arena_failed(l->q->arena, err);
        if (l->n > 0)
            memcpy(more, l->keys, l->n * sizeof(*more));
        l->keys = more;
        l->cap = cap;
    }
    l->keys[l->n++] = key;
    return OTL_OK;
}

static enum otl_err load_keys(struct querier *q, struct otl_error *err)
{
    struct key_list point = {.q = q}, resource = {.q = q};
    enum otl_err rc;

    if (q->has_keys)
        return OTL_OK;
    rc = read_keys(q->r, MATCH_ATTRIBUTE, add_key, &point, err);
    if (rc == OTL_OK)
        rc = read_keys(q->r, MATCH_RESOURCE, add_key, &resource, err);
    if (rc != OTL_OK)
        return rc;
    q->point_keys = point.keys;
    q->n_point_keys = point.n;
    q->resource_keys = resource.keys;
    q->n_resource_keys = resource.n;
    q->has_keys = true;
    return OTL_OK;
}

/* Whether a label of that name may come from the key. */
static bool may_give(struct querier *q, struct bytes key, struct bytes name)
{
    if (bytes_equal(key, name))
        return true;
    buf_reset(&q->text);
    return prom_label_name(&q->text, NAMES_UNDERSCORES_WITH_SUFFIXES, key) &&
           bytes_equal(buf_bytes(&q->text), name);
}

/* Which keys a label may come from: how many, and the last of them. */
struct origin {
    size_t n_point, n_resource;
    struct bytes point, resource;
};

static void find_origin(struct querier *q, struct bytes name, struct origin *o)
{
    *o = (struct origin){0};
    for (size_t i = 0; i < q->n_point_keys; i++) {
        if (may_give(q, q->point_keys[i], name)) {
            o->n_point++;
            o->point = q->point_keys[i];
        }
    }
    for (size_t i = 0; i < q->n_resource_keys; i++) {
        struct bytes key = q->resource_keys[i];

        if (is_shown_key(q, key) && may_give(q, key, name) &&
            (is_promoted(&q->shared->opts, key) || bytes_equal(key, name))) {
            o->n_resource++;
            o->resource = key;
        }
    }
}

static bool has_resource_key(const struct querier *q, const char *key)
{
    for (size_t i = 0; i < q->n_resource_keys; i++) {
        if (is(q->resource_keys[i], key))
            return true;
    }
    return false;
}

static void add_quoted(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != 0 && strchr("\\.+*?()|[]{}^$", text.p[i]) != NULL)
            buf_add_char(out, '\\');
        buf_add_char(out, (char)text.p[i]);
    }
}

/* The value or what stands behind one of its slashes: job is "namespace/name", or only a name. */
static enum otl_err job_names(struct querier *q, struct bytes job, struct bytes *out,
                              struct otl_error *err)
{
    buf_reset(&q->text);
    add_quoted(&q->text, job);
    for (size_t i = 0; i < job.n; i++) {
        if (job.p[i] != '/')
            continue;
        buf_add_char(&q->text, '|');
        add_quoted(&q->text, bytes_of(job.p + i + 1, job.n - i - 1));
    }
    if (q->text.failed)
        return querier_no_memory(err);
    return arena_dup(q->arena, buf_bytes(&q->text), out) ? OTL_OK
                                                         : querier_arena_failed(q->arena, err);
}

static enum otl_err translate_job(struct querier *q, const struct compiled_matcher *c,
                                  struct matcher *m, size_t *n, struct otl_error *err)
{
    m->what = MATCH_RESOURCE;
    m->key = bytes_str("service.name");
    if (m->op == MATCH_EQUAL) {
        enum otl_err rc = job_names(q, c->m->value, &m->value, err);

        if (rc != OTL_OK)
            return rc;
        m->op = MATCH_REGEX;
    } else if (has_resource_key(q, "service.namespace")) {
        return OTL_OK;
    }
    *n += 1;
    return OTL_OK;
}

/* At most one matcher more at m[*n]. *none: no series has such a label. */
static enum otl_err translate(struct querier *q, const struct compiled_matcher *c,
                              struct matcher *all, size_t *n, bool *none, struct otl_error *err)
{
    struct bytes name = c->m->name;
    struct matcher *m = &all[*n];
    struct origin o;

    if (c->is_name || c->is_bound || c->vm.hits_empty != c->vm.negative)
        return OTL_OK;
    if (q->n_point_keys > MAX_KEYS || q->n_resource_keys > MAX_KEYS)
        return OTL_OK;
    find_origin(q, name, &o);
    *m = (struct matcher){.op = (enum match_op)c->m->op, .value = c->m->value};
    if (is(name, "job") || is(name, "instance") || is(name, "otel_scope_name")) {
        if (o.n_point + o.n_resource > 0)
            return OTL_OK;
        if (is(name, "job"))
            return translate_job(q, c, m, n, err);
        m->what = is(name, "instance") ? MATCH_RESOURCE : MATCH_SCOPE;
        m->key = bytes_str("service.instance.id");
        *n += 1;
        *none = *none || (m->what == MATCH_SCOPE && !q->shared->opts.scope_labels);
        return OTL_OK;
    }
    if (name.n > 11 && memcmp(name.p, "otel_scope_", 11) == 0)
        return OTL_OK;
    if (o.n_point + o.n_resource == 0) {
        *none = true;
        return OTL_OK;
    }
    if (o.n_point > 1 || o.n_resource > 1 ||
        (o.n_point == 1 && o.n_resource == 1 && !bytes_equal(o.point, o.resource)))
        return OTL_OK;
    m->what = o.n_resource == 0 ? MATCH_ATTRIBUTE : o.n_point == 0 ? MATCH_RESOURCE : MATCH_ANY;
    m->key = o.n_point == 1 ? o.point : o.resource;
    *n += 1;
    return OTL_OK;
}

static int by_text(const void *a, const void *b)
{
    const struct bytes *x = a, *y = b;

    return bytes_compare(*x, *y);
}

/* The names of the metrics whose families were picked, as a|b|c in the arena; n 0: there is none.
 */
static enum otl_err picked_names(struct querier *q, const uint8_t *variants, uint32_t n,
                                 struct bytes *out, struct otl_error *err)
{
    struct bytes *names;
    size_t n_names = 0;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; i < n; i++)
        n_names += variants[i] != 0;
    *out = bytes_of(NULL, 0);
    if (n_names == 0)
        return OTL_OK;
    names = malloc(n_names * sizeof(*names));
    if (names == NULL)
        return querier_no_memory(err);
    n_names = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (variants[i] != 0)
            names[n_names++] = family_table_get(&q->shared->families, i)->name;
    }
    qsort(names, n_names, sizeof(*names), by_text);
    buf_reset(&q->text);
    for (size_t i = 0; i < n_names; i++) {
        if (i > 0 && bytes_equal(names[i], names[i - 1]))
            continue;
        if (q->text.n > 0)
            buf_add_char(&q->text, '|');
        add_quoted(&q->text, names[i]);
    }
    free(names);
    if (q->text.failed)
        rc = querier_no_memory(err);
    else if (!arena_dup(q->arena, buf_bytes(&q->text), out))
        rc = querier_arena_failed(q->arena, err);
    return rc;
}

enum otl_err matchers_select(struct querier *q, const struct compiled_matchers *c,
                             const uint8_t *variants, uint32_t n_variants, bool all,
                             struct series_list *out, struct otl_error *err)
{
    struct matcher *m = arena_alloc(q->arena, (c->n + 1) * sizeof(*m));
    bool none = false;
    size_t n = 0;
    enum otl_err rc = OTL_OK;

    out->n = 0;
    if (m == NULL)
        return querier_arena_failed(q->arena, err);
    if (!all) {
        m[0] = (struct matcher){.what = MATCH_NAME, .op = MATCH_REGEX};
        rc = picked_names(q, variants, n_variants, &m[0].value, err);
        n = 1;
        none = m[0].value.n == 0;
    }
    if (rc == OTL_OK && !none && c->n > 0)
        rc = load_keys(q, err);
    for (size_t i = 0; i < c->n && rc == OTL_OK && !none; i++)
        rc = translate(q, &c->c[i], m, &n, &none, err);
    if (rc != OTL_OK || none)
        return rc;
    return read_select(q->r, q->project_id, m, n, out, err);
}
