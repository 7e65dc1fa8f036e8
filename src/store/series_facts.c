/* series_facts.c -- what maintenance has to know of each series, read once and then what is new. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "maintain_internal.h"

enum {
    FACT_DELTA = 1 << 15, /* the rest: place of the rule + 1, 0: none */
    MAX_RULES = FACT_DELTA - 1
};

bool pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;

    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1; /* the last star takes one character more */
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

void series_facts_fini(struct series_facts *f)
{
    free(f->ids);
    free(f->facts);
    memset(f, 0, sizeof(*f));
}

static bool reserve(struct series_facts *f)
{
    size_t cap = f->cap == 0 ? 1024 : 2 * f->cap;
    int64_t *ids;
    uint16_t *facts;

    if (f->n < f->cap)
        return true;
    ids = realloc(f->ids, cap * sizeof(*ids));
    if (ids == NULL)
        return false;
    f->ids = ids;
    facts = realloc(f->facts, cap * sizeof(*facts));
    if (facts == NULL)
        return false;
    f->facts = facts;
    f->cap = cap;
    return true;
}

/* The first rule that matches, + 1; projects: of each rule, its id, 0: any, -1: no such project. */
static uint16_t find_rule(const struct retention *r, const int64_t *projects, const char *metric,
                          int64_t project)
{
    for (size_t i = 0; i < r->n_rules && i < MAX_RULES; i++) {
        if ((projects[i] == 0 || projects[i] == project) &&
            (r->rules[i].metric == NULL || pattern_matches(r->rules[i].metric, metric)))
            return (uint16_t)(i + 1);
    }
    return 0;
}

static enum otl_err find_projects(struct maintainer *m, int64_t **out, struct otl_error *err)
{
    const struct retention *r = &m->opts.retention;
    int64_t *ids = calloc(r->n_rules + 1, sizeof(*ids));

    if (ids == NULL)
        return otl_fail(err, OTL_ENOMEM, "read series: no memory");
    for (size_t i = 0; i < r->n_rules; i++) {
        if (r->rules[i].project == NULL)
            continue;
        ids[i] = m->opts.project_id == NULL
                     ? 0
                     : m->opts.project_id(m->opts.project_arg, r->rules[i].project);
        if (ids[i] == 0)
            ids[i] = -1;
    }
    *out = ids;
    return OTL_OK;
}

enum otl_err series_facts_refresh(struct maintainer *m, struct otl_error *err)
{
    static const char SQL[] = "SELECT s.id, m.temporality = 'delta', m.name, r.project_id"
                              " FROM series s JOIN metric m ON m.id = s.metric_id"
                              " JOIN scope c ON c.id = m.scope_id"
                              " JOIN resource r ON r.id = c.resource_id"
                              " WHERE s.id > ? ORDER BY s.id";
    struct series_facts *f = &m->facts;
    int64_t *projects = NULL;
    struct sqlite3_stmt *st = NULL;
    enum otl_err rc = find_projects(m, &projects, err);
    int step = SQLITE_DONE;

    if (rc == OTL_OK)
        rc = db_prepare(&m->db, SQL, &st, err);
    if (rc == OTL_OK &&
        sqlite3_bind_int64(st, 1, f->n == 0 ? INT64_MIN : f->ids[f->n - 1]) != SQLITE_OK)
        rc = otl_fail(err, OTL_ENOMEM, "read series: no memory");
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 2);

        if (!reserve(f)) {
            rc = otl_fail(err, OTL_ENOMEM, "read series: no memory");
            break;
        }
        f->ids[f->n] = sqlite3_column_int64(st, 0);
        f->facts[f->n] =
            (uint16_t)((sqlite3_column_int(st, 1) != 0 ? FACT_DELTA : 0) |
                       find_rule(&m->opts.retention, projects, name == NULL ? "" : name,
                                 sqlite3_column_int64(st, 3)));
        f->n++;
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(&m->db, step, "read series", err);
    (void)sqlite3_finalize(st);
    free(projects);
    return rc;
}

size_t series_place(struct series_facts *f, int64_t series_id)
{
    size_t lo = 0, hi = f->n;

    /* Asked for in the order of ids, mostly. */
    if (f->hint + 1 < f->n && f->ids[f->hint + 1] == series_id)
        return ++f->hint;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (f->ids[mid] < series_id)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == f->n || f->ids[lo] != series_id)
        return f->n;
    f->hint = lo;
    return lo;
}

/* 0 for a series that is not known. */
static uint16_t facts_of(struct series_facts *f, int64_t series_id)
{
    size_t at = series_place(f, series_id);

    return at == f->n ? 0 : f->facts[at];
}

bool series_is_delta(struct maintainer *m, int64_t series_id)
{
    return (facts_of(&m->facts, series_id) & FACT_DELTA) != 0;
}

size_t series_rule(struct maintainer *m, int64_t series_id)
{
    uint16_t rule = facts_of(&m->facts, series_id) & MAX_RULES;

    return rule == 0 ? m->opts.retention.n_rules : (size_t)rule - 1;
}
