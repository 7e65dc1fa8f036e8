/* mirror.c -- the head's rows in memory. Invariants: head.h, H4 and H5. */
#include "mirror.h"

#include <pthread.h>
#include <stdlib.h>

/* Pages of rows that are kept for the next half. New memory costs a fault for each hundred rows,
 * which is more than all else that is done for them. */
enum { MAX_SPARE_PAGES = 64 };

struct head_mirror {
    pthread_mutex_t
        mu; /* guards halves, and that one of them is not freed while it is taken; spare */
    struct mirror_half *halves[HEAD_KINDS][HEAD_HALVES];
    struct mirror_row *spare[MAX_SPARE_PAGES];
    int n_spare;
    _Atomic uint64_t bytes;
    atomic_uint owners;
};

/* ---- the whole ---- */

struct head_mirror *head_mirror_new(void)
{
    struct head_mirror *m = calloc(1, sizeof(*m));

    if (m != NULL && pthread_mutex_init(&m->mu, NULL) != 0) {
        free(m);
        m = NULL;
    }
    if (m != NULL)
        m->owners = 1;
    return m;
}

struct head_mirror *head_mirror_ref(struct head_mirror *m)
{
    (void)atomic_fetch_add(&m->owners, 1);
    return m;
}

void head_mirror_free(struct head_mirror *m)
{
    if (m == NULL || atomic_fetch_sub(&m->owners, 1) != 1)
        return;
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++)
            mirror_half_put(m->halves[k][h]);
    }
    while (m->n_spare > 0)
        free(m->spare[--m->n_spare]);
    (void)pthread_mutex_destroy(&m->mu);
    free(m);
}

static struct mirror_row *take_page(struct head_mirror *m)
{
    struct mirror_row *page = NULL;

    (void)pthread_mutex_lock(&m->mu);
    if (m->n_spare > 0)
        page = m->spare[--m->n_spare];
    (void)pthread_mutex_unlock(&m->mu);
    if (page == NULL) {
        page = malloc(MIRROR_PAGE_ROWS * sizeof(*page));
        if (page != NULL)
            m->bytes += MIRROR_PAGE_ROWS * sizeof(*page);
    }
    return page;
}

static void give_page(struct head_mirror *m, struct mirror_row *page)
{
    (void)pthread_mutex_lock(&m->mu);
    if (m->n_spare < MAX_SPARE_PAGES) {
        m->spare[m->n_spare++] = page;
        page = NULL;
    }
    (void)pthread_mutex_unlock(&m->mu);
    if (page != NULL)
        m->bytes -= MIRROR_PAGE_ROWS * sizeof(*page);
    free(page);
}

struct mirror_half *head_mirror_get(struct head_mirror *m, enum series_kind kind, int half,
                                    int64_t epoch)
{
    struct mirror_half *h;

    (void)pthread_mutex_lock(&m->mu);
    h = m->halves[kind][half];
    if (h != NULL && h->epoch == epoch)
        (void)atomic_fetch_add(&h->refs, 1);
    else
        h = NULL;
    (void)pthread_mutex_unlock(&m->mu);
    return h;
}

uint64_t head_mirror_bytes(const struct head_mirror *m)
{
    return m->bytes;
}

static void replace(struct head_mirror *m, enum series_kind kind, int half, struct mirror_half *by)
{
    struct mirror_half *old;

    (void)pthread_mutex_lock(&m->mu);
    old = m->halves[kind][half];
    m->halves[kind][half] = by;
    (void)pthread_mutex_unlock(&m->mu);
    mirror_half_put(old);
}

struct mirror_half *head_mirror_begin(struct head_mirror *m, enum series_kind kind, int half,
                                      int64_t epoch)
{
    struct mirror_half *h = calloc(1, sizeof(*h));

    if (h != NULL) {
        h->owner = m;
        h->epoch = epoch;
        h->refs = 1;
        m->bytes += sizeof(*h);
    }
    replace(m, kind, half, h);
    return h;
}

void head_mirror_drop(struct head_mirror *m, enum series_kind kind, int half)
{
    replace(m, kind, half, NULL);
}

/* ---- a half ---- */

void mirror_half_put(struct mirror_half *h)
{
    struct head_mirror *m;
    uint64_t bytes = sizeof(*h);

    if (h == NULL || atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    for (int i = 0; i < MIRROR_MAX_PAGES && h->pages[i] != NULL; i++)
        give_page(h->owner, h->pages[i]);
    for (struct mirror_series *s = h->series; s != NULL;) {
        struct mirror_series *smaller = s->smaller;

        for (uint32_t i = 0; s == h->series && i < s->n; i++) {
            bytes += s->pages[i] == NULL ? 0 : sizeof(struct mirror_series_page);
            free(s->pages[i]);
        }
        bytes += sizeof(*s) + s->n * sizeof(s->pages[0]);
        if (s != h->series)
            free(s);
        s = smaller;
    }
    m = h->owner;
    free(h->series);
    free(h);
    m->bytes -= bytes;
}

int64_t mirror_half_epoch(const struct mirror_half *m)
{
    return m->epoch;
}

uint32_t mirror_half_rows(const struct mirror_half *m)
{
    return atomic_load_explicit(&m->published, memory_order_acquire);
}

const struct mirror_row *mirror_half_row(const struct mirror_half *m, uint32_t i)
{
    return &m->pages[i / MIRROR_PAGE_ROWS][i % MIRROR_PAGE_ROWS];
}

uint32_t mirror_half_newest(const struct mirror_half *m, int64_t series_id)
{
    const struct mirror_series *s = atomic_load_explicit(&m->series, memory_order_acquire);
    const struct mirror_series_page *page;
    int64_t i = series_id / MIRROR_SERIES_PAGE;

    if (s == NULL || series_id < 0 || i >= s->n)
        return 0;
    page = atomic_load_explicit(&s->pages[i], memory_order_acquire);
    return page == NULL ? 0
                        : atomic_load_explicit(&page->newest[series_id % MIRROR_SERIES_PAGE],
                                               memory_order_acquire);
}

bool mirror_half_add_page(struct mirror_half *h)
{
    uint32_t page = h->staged / MIRROR_PAGE_ROWS;

    if (page >= MIRROR_MAX_PAGES)
        return false;
    if (h->pages[page] == NULL) { /* one that a failed transaction left is used again */
        h->pages[page] = take_page(h->owner);
        if (h->pages[page] == NULL)
            return false;
    }
    return true;
}

/* A list with room for page i. */
static struct mirror_series *grow_series(struct mirror_half *h, uint32_t i)
{
    struct mirror_series *old = atomic_load_explicit(&h->series, memory_order_relaxed), *s;
    uint32_t n = old == NULL ? 4 : old->n;
    size_t bytes;

    while (n <= i)
        n *= 2;
    bytes = sizeof(*s) + n * sizeof(s->pages[0]);
    s = calloc(1, bytes);
    if (s == NULL)
        return NULL;
    s->smaller = old;
    s->n = n;
    for (uint32_t j = 0; old != NULL && j < old->n; j++)
        s->pages[j] = old->pages[j];
    atomic_store_explicit(&h->series, s, memory_order_release);
    h->owner->bytes += bytes;
    return s;
}

/* The place of a series' newest row; NULL: no memory. */
static _Atomic uint32_t *newest_of(struct mirror_half *h, uint32_t series)
{
    struct mirror_series *s = atomic_load_explicit(&h->series, memory_order_relaxed);
    uint32_t i = series / MIRROR_SERIES_PAGE;
    struct mirror_series_page *page;

    if (s == NULL || i >= s->n) {
        s = grow_series(h, i);
        if (s == NULL)
            return NULL;
    }
    page = atomic_load_explicit(&s->pages[i], memory_order_relaxed);
    if (page == NULL) {
        page = calloc(1, sizeof(*page));
        if (page == NULL)
            return NULL;
        atomic_store_explicit(&s->pages[i], page, memory_order_release);
        h->owner->bytes += sizeof(*page);
    }
    return &page->newest[series % MIRROR_SERIES_PAGE];
}

void mirror_half_publish(struct mirror_half *h)
{
    uint32_t i = atomic_load_explicit(&h->published, memory_order_relaxed);
    uint32_t n_series = atomic_load_explicit(&h->n_series, memory_order_relaxed);

    for (; i < h->staged; i++) {
        struct mirror_row *row = &h->pages[i / MIRROR_PAGE_ROWS][i % MIRROR_PAGE_ROWS];
        _Atomic uint32_t *newest = newest_of(h, row->series);

        if (newest == NULL) {
            h->ended = true;
            h->staged = i;
            break;
        }
        row->previous = atomic_load_explicit(newest, memory_order_relaxed);
        if (row->previous == 0)
            n_series++;
        atomic_store_explicit(newest, i + 1, memory_order_release);
    }
    atomic_store_explicit(&h->n_series, n_series, memory_order_relaxed);
    atomic_store_explicit(&h->published, i, memory_order_release);
}

void mirror_half_unstage(struct mirror_half *h)
{
    h->staged = atomic_load_explicit(&h->published, memory_order_relaxed);
}
