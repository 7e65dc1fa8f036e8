/* The index of labels against a naive model: catalogues written by SQL, every matcher evaluated
 * series by series on the texts they were made from. */
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "otlite/clock.h"
#include "otlite/db.h"
#include "otlite/read.h"
#include "store/label_index.h"
#include "store/schema.h"
#include "store_fixture.h"

/* ---- a random catalogue and its model ---- */

enum { N_KEYS = 4, MAX_RESOURCES = 8, MAX_METRICS = 16, MAX_SERIES = 600 };

static const char *const keys[N_KEYS] = {"host", "k8s.pod", "type", "zone"};
static const char *const names[] = {"up", "http.requests", "http.errors", "cpu"};
static const char *const units[] = {"", "1", "ms"};
static const char *const types[] = {"gauge", "sum", "histogram"};
static const char *const services[] = {"", "api", "web"};
static const char *const scope_names[] = {"", "lib"};

/* Values of every kind: canonical bytes and the text that read.h says. */
static const struct {
    const char *canonical;
    size_t n;
    const char *text;
} values[] = {
#define V(canonical, text)                     \
    {                                          \
        canonical, sizeof(canonical) - 1, text \
    }
    V("s\1a", "a"),
    V("s\1b", "b"),
    V("s\2ab", "ab"),
    V("s\3abc", "abc"),
    V("s\0", ""),
    V("s\1"
      "1",
      "1"), /* the text of the next one */
    V("i\0\0\0\0\0\0\0\1", "1"),
    V("i\xff\xff\xff\xff\xff\xff\xff\xfe", "-2"),
    V("d\x3f\xf8\0\0\0\0\0\0", "1.5"),
    V("d\x7f\xf8\0\0\0\0\0\0", "NaN"),
    V("d\xff\xf0\0\0\0\0\0\0", "-Infinity"),
    V("b\1", "true"),
    V("b\0", "false"),
    V("e", "null"),
    V("y\2\xff\0", "/wA="),
    V("a\2s\1ai\0\0\0\0\0\0\0\2", "[\"a\",2]"),
    V("m\1\1kb\1", "{\"k\":true}"),
#undef V
};
enum { N_VALUES = sizeof(values) / sizeof(values[0]) };

/* Which value of each key; -1: absent. */
struct attributes {
    int value[N_KEYS];
};

struct model {
    struct {
        int64_t project;
        const char *service;
        struct attributes attributes;
    } resources[MAX_RESOURCES];
    struct {
        int resource;
        const char *name, *unit, *type, *scope;
    } metrics[MAX_METRICS];
    struct {
        int64_t id;
        int metric;
        struct attributes attributes;
    } series[MAX_SERIES];
    int n_resources, n_metrics, n_series;
    int n_values; /* few of them are used, so that lists are long, or all */
};

struct ctx {
    char *dir;
    struct db writer;
    uint64_t random;
};

static unsigned below(struct ctx *c, unsigned n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (unsigned)((c->random >> 11) % n);
}

#define PICK(c, array) ((array)[below(c, sizeof(array) / sizeof((array)[0]))])

static void must(enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK)
        fail_msg("%s", err->msg);
}

static void open_db(const char *dir, struct db *db, enum db_mode mode)
{
    static const char *const pragmas[] = {"journal_mode(WAL)", "busy_timeout(5000)",
                                          "foreign_keys(ON)", NULL};
    struct otl_error err;
    struct buf dsn = {0};
    char path[4096];

    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    db_dsn(&dsn, path, mode == DB_READ_ONLY ? pragmas + 1 : pragmas);
    must(db_open(db, buf_cstr(&dsn), mode, &err), &err);
    buf_fini(&dsn);
}

static void exec(struct db *db, const char *sql)
{
    struct otl_error err;

    must(db_exec(db, sql, &err), &err);
}

static int64_t query(struct db *db, const char *sql)
{
    struct otl_error err;
    int64_t v;

    must(db_query_int(db, sql, &v, &err), &err);
    return v;
}

static int setup(void **state)
{
    struct ctx *c = calloc(1, sizeof(*c));
    struct otl_error err;

    assert_non_null(c);
    c->dir = fx_dir_new();
    open_db(c->dir, &c->writer, DB_READ_WRITE_CREATE);
    must(db_migrate(&c->writer, 1, telemetry_migrations, telemetry_migration_count, &err), &err);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct ctx *c = *state;

    db_close(&c->writer);
    fx_dir_free(c->dir);
    free(c);
    return 0;
}

static struct attributes random_attributes(struct ctx *c, const struct model *m)
{
    struct attributes a;

    for (int k = 0; k < N_KEYS; k++)
        a.value[k] = below(c, 3) == 0 ? -1 : (int)below(c, (unsigned)m->n_values);
    return a;
}

/* The keys are in order. */
static void canonical(const struct attributes *a, struct buf *out)
{
    buf_reset(out);
    buf_add_char(out, 0);
    for (int k = 0; k < N_KEYS; k++) {
        if (a->value[k] < 0)
            continue;
        out->p[0]++;
        buf_add_char(out, (char)strlen(keys[k]));
        buf_add_str(out, keys[k]);
        buf_add(out, values[a->value[k]].canonical, values[a->value[k]].n);
    }
}

static void insert(struct ctx *c, const char *sql, struct buf *identity, int64_t a, int64_t b,
                   const char *s, const char *t, const char *u)
{
    struct otl_error err;
    sqlite3_stmt *st;

    must(db_prepare(&c->writer, sql, &st, &err), &err);
    sqlite3_bind_int64(st, 1, a);
    sqlite3_bind_int64(st, 2, b);
    if (s != NULL)
        sqlite3_bind_text(st, 3, s, -1, SQLITE_STATIC);
    if (t != NULL)
        sqlite3_bind_text(st, 4, t, -1, SQLITE_STATIC);
    if (u != NULL)
        sqlite3_bind_text(st, 5, u, -1, SQLITE_STATIC);
    if (identity != NULL)
        sqlite3_bind_blob(st, 6, identity->p, (int)identity->n, SQLITE_STATIC);
    must(db_run(&c->writer, st, "insert", &err), &err);
    sqlite3_finalize(st);
}

static void clear(struct ctx *c)
{
    exec(&c->writer, "DELETE FROM series; DELETE FROM metric; DELETE FROM scope;"
                     "DELETE FROM resource");
}

/* Series of all metrics mixed, with gaps between ids. */
static void add_series(struct ctx *c, struct model *m, int n)
{
    struct buf identity = {0};
    int64_t id = m->n_series == 0 ? 0 : m->series[m->n_series - 1].id;

    for (; n > 0 && m->n_series < MAX_SERIES; n--) {
        int i = m->n_series++;

        id += 1 + (int64_t)(below(c, 4) == 0);
        m->series[i].id = id;
        m->series[i].metric = (int)below(c, (unsigned)m->n_metrics);
        m->series[i].attributes = random_attributes(c, m);
        canonical(&m->series[i].attributes, &identity);
        insert(c,
               "INSERT INTO series(id, metric_id, attributes, identity)"
               " VALUES (?1, ?2, coalesce(?3, '{}'), ?6)",
               &identity, id, m->series[i].metric + 1, NULL, NULL, NULL);
    }
    buf_fini(&identity);
}

static void build(struct ctx *c, struct model *m)
{
    struct buf identity = {0};

    memset(m, 0, sizeof(*m));
    m->n_values = below(c, 2) == 0 ? 4 : N_VALUES;
    m->n_resources = 1 + (int)below(c, MAX_RESOURCES);
    m->n_metrics = 1 + (int)below(c, MAX_METRICS);
    exec(&c->writer, "BEGIN");
    clear(c);
    for (int i = 0; i < m->n_resources; i++) {
        m->resources[i].project = 1 + below(c, 2);
        m->resources[i].service = PICK(c, services);
        m->resources[i].attributes = random_attributes(c, m);
        canonical(&m->resources[i].attributes, &identity);
        insert(
            c,
            "INSERT INTO resource(id, project_id, service_name, attributes, identity, schema_url,"
            " dropped_attributes_count) VALUES (?1, ?2, ?3, '{}', ?6, '', 0)",
            &identity, i + 1, m->resources[i].project, m->resources[i].service, NULL, NULL);
    }
    for (int i = 0; i < m->n_metrics; i++) {
        char scope[32];

        m->metrics[i].resource = (int)below(c, (unsigned)m->n_resources);
        m->metrics[i].name = PICK(c, names);
        m->metrics[i].unit = PICK(c, units);
        m->metrics[i].type = PICK(c, types);
        m->metrics[i].scope = PICK(c, scope_names);
        snprintf(scope, sizeof(scope), "%s", m->metrics[i].scope);
        insert(c,
               "INSERT INTO scope(id, resource_id, name, version, schema_url, attributes, identity,"
               " dropped_attributes_count) VALUES (?1, ?2, ?3, '', '', '{}', x'00', 0)",
               NULL, i + 1, m->metrics[i].resource + 1, scope, NULL, NULL);
        insert(c,
               "INSERT INTO metric(id, scope_id, name, unit, description, type, temporality,"
               " is_monotonic, metadata, metadata_identity)"
               " VALUES (?1, ?2, ?3, ?4, '', ?5, 'delta', 1, '{}', x'00')",
               NULL, i + 1, i + 1, m->metrics[i].name, m->metrics[i].unit, m->metrics[i].type);
    }
    add_series(c, m, (int)below(c, MAX_SERIES));
    exec(&c->writer, "COMMIT");
    buf_fini(&identity);
}

/* ---- the naive evaluation ---- */

static const char *attribute(const struct attributes *a, struct bytes key)
{
    for (int k = 0; k < N_KEYS; k++)
        if (bytes_equal(key, bytes_str(keys[k])) && a->value[k] >= 0)
            return values[a->value[k]].text;
    return NULL;
}

static const char *value_of(const struct model *m, int series, enum match_what what,
                            struct bytes key)
{
    int metric = m->series[series].metric, resource = m->metrics[metric].resource;
    const char *v = NULL;

    switch (what) {
    case MATCH_NAME:
        return m->metrics[metric].name;
    case MATCH_TYPE:
        return m->metrics[metric].type;
    case MATCH_UNIT:
        return m->metrics[metric].unit;
    case MATCH_SCOPE:
        return m->metrics[metric].scope;
    case MATCH_SERVICE:
        return m->resources[resource].service;
    case MATCH_ATTRIBUTE:
        v = attribute(&m->series[series].attributes, key);
        break;
    case MATCH_RESOURCE:
        v = attribute(&m->resources[resource].attributes, key);
        break;
    case MATCH_ANY:
        v = attribute(&m->series[series].attributes, key);
        if (v == NULL)
            v = attribute(&m->resources[resource].attributes, key);
        break;
    }
    return v == NULL ? "" : v;
}

static bool fits(const struct matcher *m, const char *value)
{
    char pattern[200];
    regex_t re;
    bool hit;

    if (m->op == MATCH_EQUAL || m->op == MATCH_NOT_EQUAL)
        return bytes_equal(m->value, bytes_str(value)) == (m->op == MATCH_EQUAL);
    snprintf(pattern, sizeof(pattern), "^(%.*s)$", (int)m->value.n, (const char *)m->value.p);
    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    hit = regexec(&re, value, 0, NULL, 0) == 0;
    regfree(&re);
    return hit == (m->op == MATCH_REGEX);
}

static bool in_project(const struct model *m, int series, int64_t project)
{
    return project == 0 ||
           m->resources[m->metrics[m->series[series].metric].resource].project == project;
}

/* ---- random questions ---- */

static const char *const patterns[] = {"a|b",      "a",          "(ab|abc|1)", ".*",     ".+",
                                       "a.*",      ".*b",        ".*b.*",      "a?b?",   "[a-z]+",
                                       "-?[0-9]+", "|a",         "up|cpu",     "http.*", "[^a].*",
                                       "zzz",      "true|false", "(sum|gauge)"};
static const char *const others[] = {"",    "a",  "zzz", "up", "http.requests",
                                     "sum", "ms", "api", "lib"};

static struct matcher random_matcher(struct ctx *c)
{
    struct matcher m = {.what = (enum match_what)below(c, MATCH_ANY + 1),
                        .op = (enum match_op)below(c, 4)};

    /* Most are on attributes. */
    if (below(c, 2) == 0)
        m.what = PICK(c, ((const enum match_what[]){MATCH_ATTRIBUTE, MATCH_ANY, MATCH_RESOURCE}));
    m.key = bytes_str(below(c, 10) == 0 ? "nokey" : PICK(c, keys));
    if (m.op == MATCH_REGEX || m.op == MATCH_NOT_REGEX)
        m.value = bytes_str(PICK(c, patterns));
    else if (below(c, 3) == 0)
        m.value = bytes_str(PICK(c, others));
    else
        m.value = bytes_str(values[below(c, N_VALUES)].text);
    return m;
}

static struct label_view *view(struct label_index *ix, struct db *db)
{
    struct label_view *v = NULL;
    struct otl_error err;

    must(label_index_view(ix, db, NULL, &v, &err), &err);
    return v;
}

static void compare_select(const struct model *m, int n_series, struct label_view *v,
                           int64_t project, const struct matcher *matchers, size_t n,
                           struct series_list *l, uint64_t seed)
{
    struct otl_error err;
    size_t at = 0;

    must(label_view_select(v, project, matchers, n, NULL, l, &err), &err);
    for (int i = 0; i < n_series; i++) {
        bool expected = in_project(m, i, project), got;

        for (size_t k = 0; k < n; k++)
            expected =
                expected && fits(&matchers[k], value_of(m, i, matchers[k].what, matchers[k].key));
        got = at < l->n && l->ids[at] == m->series[i].id;
        at += got;
        if (got != expected) {
            for (size_t k = 0; k < n; k++)
                print_message("what %d key %.*s op %d value \"%.*s\"\n", matchers[k].what,
                              (int)matchers[k].key.n, (const char *)matchers[k].key.p,
                              matchers[k].op, (int)matchers[k].value.n,
                              (const char *)matchers[k].value.p);
            fail_msg("seed %llu: series %lld of %d: expected %d", (unsigned long long)seed,
                     (long long)m->series[i].id, n_series, expected);
        }
    }
    assert_int_equal(at, l->n);
}

struct texts {
    struct buf all; /* each ended by a line feed */
};

static enum otl_err collect(void *arg, struct bytes value, struct otl_error *err)
{
    struct texts *t = arg;

    (void)err;
    buf_add_bytes(&t->all, value);
    buf_add_char(&t->all, '\n');
    return OTL_OK;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* l: NULL or those that were selected. */
static void compare_values(const struct model *m, int n_series, struct label_view *v,
                           int64_t project, const struct series_list *l, enum match_what what,
                           struct bytes key, uint64_t seed)
{
    static const char *expected[2 * MAX_SERIES * N_KEYS];
    struct texts got = {0}, want = {0};
    struct otl_error err;
    size_t n = 0, at = 0;

    for (int i = 0; i < n_series; i++) {
        bool counts = in_project(m, i, project);

        if (l != NULL) {
            while (at < l->n && l->ids[at] < m->series[i].id)
                at++;
            counts = counts && at < l->n && l->ids[at] == m->series[i].id;
        }
        if (!counts)
            continue;
        if (key.n > 0 || (what != MATCH_ATTRIBUTE && what != MATCH_RESOURCE && what != MATCH_ANY)) {
            expected[n++] = value_of(m, i, what, key);
            continue;
        }
        for (int k = 0; k < N_KEYS; k++) {
            if (what != MATCH_RESOURCE && m->series[i].attributes.value[k] >= 0)
                expected[n++] = keys[k];
            if (what != MATCH_ATTRIBUTE &&
                m->resources[m->metrics[m->series[i].metric].resource].attributes.value[k] >= 0)
                expected[n++] = keys[k];
        }
    }
    qsort(expected, n, sizeof(expected[0]), compare_text);
    for (size_t i = 0; i < n; i++)
        if (expected[i][0] != '\0' && (i == 0 || strcmp(expected[i], expected[i - 1]) != 0)) {
            buf_add_str(&want.all, expected[i]);
            buf_add_char(&want.all, '\n');
        }
    must(label_view_values(v, project, l, what, key, NULL, collect, &got, &err), &err);
    if (strcmp(buf_cstr(&want.all), buf_cstr(&got.all)) != 0)
        fail_msg("seed %llu: values of %d %.*s:\n%sbut expected\n%s", (unsigned long long)seed,
                 what, (int)key.n, (const char *)key.p, buf_cstr(&got.all), buf_cstr(&want.all));
    buf_fini(&want.all);
    buf_fini(&got.all);
}

static void compare_info(const struct model *m, int i, struct label_view *v)
{
    struct buf identity = {0};
    struct series_info s;
    int metric = m->series[i].metric, resource = m->metrics[metric].resource;

    assert_true(label_view_series(v, m->series[i].id, &s));
    assert_int_equal(s.id, m->series[i].id);
    assert_int_equal(s.metric_id, metric + 1);
    assert_int_equal(s.scope_id, metric + 1);
    assert_int_equal(s.resource_id, resource + 1);
    assert_int_equal(s.project_id, m->resources[resource].project);
    assert_string_equal(metric_type_name(s.type), m->metrics[metric].type);
    assert_int_equal(s.temporality, TEMPORALITY_DELTA);
    assert_true(s.is_monotonic);
    assert_true(bytes_equal(s.name, bytes_str(m->metrics[metric].name)));
    assert_true(bytes_equal(s.unit, bytes_str(m->metrics[metric].unit)));
    assert_true(bytes_equal(s.service, bytes_str(m->resources[resource].service)));
    assert_true(bytes_equal(s.scope_name, bytes_str(m->metrics[metric].scope)));
    canonical(&m->series[i].attributes, &identity);
    assert_true(bytes_equal(s.attributes, buf_bytes(&identity)));
    canonical(&m->resources[resource].attributes, &identity);
    assert_true(bytes_equal(s.resource_attributes, buf_bytes(&identity)));
    buf_fini(&identity);
}

static void compare_some(struct ctx *c, const struct model *m, int n_series, struct label_view *v,
                         uint64_t seed)
{
    struct series_list l = {0};

    for (int i = 0; i < 60; i++) {
        int64_t project = below(c, 3);
        struct matcher matchers[4];
        size_t n = below(c, 5);

        for (size_t k = 0; k < n; k++)
            matchers[k] = random_matcher(c);
        compare_select(m, n_series, v, project, matchers, n, &l, seed);
        if (i % 4 == 0) {
            struct matcher asked = random_matcher(c);

            if (below(c, 4) == 0)
                asked.key = bytes_of("", 0);
            compare_values(m, n_series, v, project, below(c, 3) == 0 ? NULL : &l, asked.what,
                           asked.key, seed);
        }
    }
    for (int i = 0; i < n_series; i += 1 + (int)below(c, 20))
        compare_info(m, i, v);
    series_list_fini(&l);
}

static void agrees_with_a_naive_evaluation(void **state)
{
    struct ctx *c = *state;
    uint64_t first = (uint64_t)clock_wall_ns();
    struct otl_error err;

    if (getenv("OTLITE_SEED") != NULL)
        first = strtoull(getenv("OTLITE_SEED"), NULL, 10);
    print_message("seed %llu\n", (unsigned long long)first);
    for (uint64_t seed = first; seed < first + 60; seed++) {
        static struct model m;
        struct label_index *ix = NULL;
        struct label_view *old, *now;
        struct db reader;
        int n_old;

        c->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
        build(c, &m);
        open_db(c->dir, &reader, DB_READ_ONLY);
        must(label_index_new(&ix, &err), &err);
        exec(&reader, "BEGIN");
        old = view(ix, &reader);
        n_old = m.n_series;
        compare_some(c, &m, n_old, old, seed);
        exec(&reader, "COMMIT");
        exec(&c->writer, "BEGIN");
        add_series(c, &m, (int)below(c, 200));
        exec(&c->writer, "COMMIT");
        now = view(ix, &reader);
        compare_some(c, &m, m.n_series, now, seed);
        /* The view of the earlier snapshot knows nothing of what came. */
        compare_some(c, &m, n_old, old, seed);
        label_view_free(old);
        label_view_free(now);
        label_index_free(ix);
        db_close(&reader);
    }
}

/* ---- promises by hand ---- */

static void small_catalogue(struct ctx *c, int n)
{
    char sql[1000];

    clear(c);
    snprintf(sql, sizeof(sql),
             "INSERT INTO resource VALUES (1, 1, 'svc', '{}', x'00', '', 0, NULL);"
             "INSERT INTO scope VALUES (1, 1, 'lib', '', '', '{}', x'00', 0);"
             "INSERT INTO metric VALUES (1, 1, 'm', '1', '', 'gauge', 'none', 0, '{}', x'00');"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " INSERT INTO series SELECT i, 1, '{}',"
             "  CAST(char(1, 1) || 'ks' || char(length(i %% 10)) || (i %% 10) AS BLOB) FROM n",
             n);
    exec(&c->writer, sql);
}

static size_t count_of(struct label_view *v, enum match_what what, const char *key,
                       enum match_op op, const char *value)
{
    struct matcher m = {what, op, bytes_str(key), bytes_str(value)};
    struct series_list l = {0};
    struct otl_error err;
    size_t n;

    must(label_view_select(v, 0, &m, 1, NULL, &l, &err), &err);
    n = l.n;
    series_list_fini(&l);
    return n;
}

static void an_open_view_outlives_the_rebuilding_after_deletions(void **state)
{
    struct ctx *c = *state;
    struct label_index *ix = NULL;
    struct label_view *old, *now;
    struct series_info s;
    struct otl_error err;

    small_catalogue(c, 5000);
    must(label_index_new(&ix, &err), &err);
    old = view(ix, &c->writer);
    assert_true(label_view_series(old, 7, &s));
    exec(&c->writer, "DELETE FROM series WHERE id <= 1000");
    label_index_recount(ix);
    /* Too few to be worth it. */
    now = view(ix, &c->writer);
    assert_int_equal(count_of(now, MATCH_ATTRIBUTE, "k", MATCH_EQUAL, "3"), 500);
    label_view_free(now);
    exec(&c->writer, "DELETE FROM series WHERE id <= 2000");
    label_index_recount(ix);
    now = view(ix, &c->writer);
    assert_int_equal(count_of(now, MATCH_ATTRIBUTE, "k", MATCH_EQUAL, "3"), 300);
    assert_false(label_view_series(now, 7, &s));
    assert_int_equal(label_index_series(ix), 3000);
    assert_true(label_view_series(old, 7, &s));
    assert_int_equal(count_of(old, MATCH_ATTRIBUTE, "k", MATCH_EQUAL, "3"), 500);
    label_view_free(old);
    label_view_free(now);
    label_index_free(ix);
}

static void an_expression_that_is_none_is_refused_even_where_nothing_can_match(void **state)
{
    struct ctx *c = *state;
    struct matcher m[2] = {{MATCH_NAME, MATCH_EQUAL, bytes_str(""), bytes_str("nothing")},
                           {MATCH_ANY, MATCH_REGEX, bytes_str("nokey"), bytes_str("a(?=b)")}};
    struct label_index *ix = NULL;
    struct series_list l = {0};
    struct label_view *v;
    struct otl_error err;

    small_catalogue(c, 10);
    must(label_index_new(&ix, &err), &err);
    v = view(ix, &c->writer);
    assert_int_equal(label_view_select(v, 0, m, 2, NULL, &l, &err), OTL_EBADREQUEST);
    assert_non_null(strstr(err.msg, "looking ahead"));
    label_view_free(v);
    label_index_free(ix);
}

static enum otl_err late(void *arg, struct otl_error *err)
{
    int *left = arg;

    return --*left >= 0 ? OTL_OK : otl_fail(err, OTL_ELATE, "Late.");
}

/* Whatever the moment: the call ends with the check's error, and the index goes on from there. */
static void a_deadline_ends_refresh_select_and_values(void **state)
{
    struct ctx *c = *state;
    struct matcher m = {MATCH_ATTRIBUTE, MATCH_REGEX, bytes_str("k"), bytes_str("[1-3].?.?.?")};
    struct label_index *ix = NULL;
    struct series_list l = {0};
    struct texts t = {0};
    struct label_view *v = NULL;
    struct otl_error err;
    int left = 0, refreshes = 0;
    struct label_check check = {late, &left};

    small_catalogue(c, 5000);
    exec(&c->writer,
         "UPDATE series SET identity = CAST(char(1, 1) || 'ks' || char(length(id)) || id"
         " AS BLOB)");
    must(label_index_new(&ix, &err), &err);
    while (label_index_view(ix, &c->writer, &check, &v, &err) == OTL_ELATE)
        refreshes++;
    assert_non_null(v);
    assert_in_range(refreshes, 1, 3);
    left = 3;
    assert_int_equal(label_view_select(v, 0, &m, 1, &check, &l, &err), OTL_ELATE);
    left = 3;
    assert_int_equal(
        label_view_values(v, 0, NULL, MATCH_ATTRIBUTE, bytes_str("k"), &check, collect, &t, &err),
        OTL_ELATE);
    left = 1000;
    assert_int_equal(label_view_select(v, 0, &m, 1, &check, &l, &err), OTL_OK);
    /* 1 to 3 and what begins with them: 3 + 30 + 300 + 3,000. */
    assert_int_equal(l.n, 3333);
    series_list_fini(&l);
    buf_fini(&t.all);
    label_view_free(v);
    label_index_free(ix);
}

/* ---- threads ---- */

enum { BATCHES = 60, BATCH = 100, READERS = 3 };

struct shared {
    struct ctx *c;
    struct label_index *ix;
    atomic_bool done;
    atomic_int faults;
};

/* SQLite's own count in the same snapshot is what a view must come to. */
static void *read_beside(void *arg)
{
    struct shared *s = arg;
    struct db db;
    bool last;

    open_db(s->c->dir, &db, DB_READ_ONLY);
    do {
        struct series_list l = {0};
        struct matcher m = {MATCH_ATTRIBUTE, MATCH_NOT_EQUAL, bytes_str("k"), bytes_str("3")};
        struct texts t = {0};
        struct series_info info;
        struct label_view *v;
        struct otl_error err;

        last = atomic_load(&s->done);
        exec(&db, "BEGIN");
        v = view(s->ix, &db);
        must(label_view_select(v, 1, &m, 1, NULL, &l, &err), &err);
        if ((int64_t)l.n != query(&db, "SELECT count(*) FROM series WHERE id % 10 <> 3") ||
            (l.n > 0 && !label_view_series(v, l.ids[l.n - 1], &info)))
            atomic_fetch_add(&s->faults, 1);
        must(label_view_values(v, 0, &l, MATCH_ATTRIBUTE, bytes_str("k"), NULL, collect, &t, &err),
             &err);
        if (l.n > 100 && strcmp(buf_cstr(&t.all), "0\n1\n2\n4\n5\n6\n7\n8\n9\n") != 0)
            atomic_fetch_add(&s->faults, 1);
        exec(&db, "COMMIT");
        label_view_free(v);
        series_list_fini(&l);
        buf_fini(&t.all);
    } while (!last);
    db_close(&db);
    return NULL;
}

static void readers_beside_refreshes_see_their_own_snapshots(void **state)
{
    struct ctx *c = *state;
    struct shared s = {.c = c};
    pthread_t threads[READERS];
    struct otl_error err;
    char sql[512];

    small_catalogue(c, 1);
    must(label_index_new(&s.ix, &err), &err);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_beside, &s), 0);
    for (int i = 0; i < BATCHES; i++) {
        snprintf(sql, sizeof(sql),
                 "WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
                 " INSERT INTO series SELECT i, 1, '{}',"
                 "  CAST(char(1, 1) || 'ks' || char(length(i %% 10)) || (i %% 10) AS BLOB) FROM n",
                 2 + i * BATCH, 1 + (i + 1) * BATCH);
        exec(&c->writer, sql);
    }
    atomic_store(&s.done, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&s.faults), 0);
    assert_int_equal(label_index_series(s.ix), 1 + BATCHES * BATCH);
    label_index_free(s.ix);
}

/* ---- what it costs: printed, not judged ---- */

/* This thread's own: other work on the machine does not count. */
static int64_t cpu_ns(void)
{
    struct timespec t;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* 6 point attributes: two of them with many values. OTLITE_INDEX_SERIES=1000000 for the large one.
 */
static void prints_what_ten_thousand_series_cost(void **state)
{
    static const struct {
        const char *what;
        struct matcher m[3];
        size_t n;
    } queries[] = {
        {"name=", {{MATCH_NAME, MATCH_EQUAL, {0}, {(const uint8_t *)"metric.7", 8}}}, 1},
        {"name= and route=",
         {{MATCH_NAME, MATCH_EQUAL, {0}, {(const uint8_t *)"metric.7", 8}},
          {MATCH_ATTRIBUTE,
           MATCH_EQUAL,
           {(const uint8_t *)"route", 5},
           {(const uint8_t *)"/r/3", 4}}},
         2},
        {"instance=",
         {{MATCH_ANY, MATCH_EQUAL, {(const uint8_t *)"instance", 8}, {(const uint8_t *)"i77", 3}}},
         1},
        {"method!= and status=~5..",
         {{MATCH_ATTRIBUTE,
           MATCH_NOT_EQUAL,
           {(const uint8_t *)"method", 6},
           {(const uint8_t *)"M1", 2}},
          {MATCH_ATTRIBUTE,
           MATCH_REGEX,
           {(const uint8_t *)"status", 6},
           {(const uint8_t *)"5..", 3}}},
         2},
        {"instance=~[i]7.*", /* a regular expression on every value */
         {{MATCH_ATTRIBUTE,
           MATCH_REGEX,
           {(const uint8_t *)"instance", 8},
           {(const uint8_t *)"[i]7.*", 6}}},
         1},
        {"all", {{MATCH_NAME, MATCH_REGEX, {0}, {(const uint8_t *)".*", 2}}}, 1},
    };
    struct ctx *c = *state;
    const char *text = getenv("OTLITE_INDEX_SERIES");
    int n = text != NULL ? atoi(text) : 10000;
    struct label_index *ix = NULL;
    struct label_view *v;
    struct otl_error err;
    char sql[2000];
    int64_t start;

    clear(c);
    snprintf(
        sql, sizeof(sql),
        "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
        " INSERT INTO resource SELECT i, 1, 'service-' || i, '{}',"
        "  CAST(char(1, 9) || 'host.names' || char(length(i)) || i AS BLOB), '', 0, NULL FROM n;"
        "INSERT INTO scope SELECT id, id, 'lib', '', '', '{}', x'00', 0 FROM resource;"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
        " INSERT INTO metric SELECT i, 1 + i %% 100, 'metric.' || (i / 100), '1', '', 'gauge',"
        "  'none', 0, '{}', x'00' FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),"
        " v AS (SELECT i, 'i' || (i %% 50000) AS a, 'M' || (i %% 5) AS b, '/r/' || (i %% 97) AS c,"
        "  'shard-' || (i / 8) AS d, (200 + 100 * (i %% 4)) || '' AS e, 'z' || (i %% 3) AS f FROM "
        "n)"
        " INSERT INTO series SELECT i, 1 + i %% 5000, '{}', CAST(char(6, 8) || 'instances' ||"
        "  char(length(a)) || a || char(6) || 'methods' || char(length(b)) || b || char(5) ||"
        "  'routes' || char(length(c)) || c || char(5) || 'shards' || char(length(d)) || d ||"
        "  char(6) || 'statuss' || char(length(e)) || e || char(4) || 'zones' ||"
        "  char(length(f)) || f AS BLOB) FROM v; COMMIT",
        n);
    exec(&c->writer, sql);
    must(label_index_new(&ix, &err), &err);
    start = cpu_ns();
    v = view(ix, &c->writer);
    print_message("%d series: built in %.1f ms, %.1f MiB\n", n, (double)(cpu_ns() - start) / 1e6,
                  (double)label_index_bytes(ix) / (1 << 20));
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct series_list l = {0};

        /* The first one pays for memory that was not touched yet. */
        for (int round = 0; round < 2; round++) {
            start = cpu_ns();
            must(label_view_select(v, 1, queries[i].m, queries[i].n, NULL, &l, &err), &err);
        }
        print_message("  %-26s %8zu series in %8.3f ms\n", queries[i].what, l.n,
                      (double)(cpu_ns() - start) / 1e6);
        series_list_fini(&l);
    }
    assert_int_equal(label_index_series(ix), n);
    label_view_free(v);
    label_index_free(ix);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(agrees_with_a_naive_evaluation),
        CASE(an_open_view_outlives_the_rebuilding_after_deletions),
        CASE(an_expression_that_is_none_is_refused_even_where_nothing_can_match),
        CASE(a_deadline_ends_refresh_select_and_values),
        CASE(readers_beside_refreshes_see_their_own_snapshots),
        CASE(prints_what_ten_thousand_series_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
