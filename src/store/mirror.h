/* mirror.h -- the writing side of the head's mirror (head.h): one thread, the writer's, stages rows
 * while its transaction runs, and publishes them after the commit. */
#ifndef OTLITE_STORE_MIRROR_H
#define OTLITE_STORE_MIRROR_H

#include <stdatomic.h>

#include "head.h"

enum {
    MIRROR_MAX_PAGES = 1 << 12,
    MIRROR_SERIES_PAGE = 1 << 14,
};

/* Newest rows by series id, in pages that never move; a larger list of pages replaces a smaller
 * one, which stays until the end for those who read it. */
struct mirror_series_page {
    _Atomic uint32_t newest[MIRROR_SERIES_PAGE]; /* row + 1, 0: none */
};
struct mirror_series {
    struct mirror_series *smaller;
    uint32_t n;
    struct mirror_series_page *_Atomic pages[];
};

/* Readers see rows below `published`, and what `newest` of a series leads to. What the pages hold
 * from there to `staged` is the writer's alone. */
struct mirror_half {
    struct head_mirror *owner;
    int64_t epoch;
    atomic_uint refs;
    _Atomic uint32_t published;
    struct mirror_series *_Atomic series;
    _Atomic uint32_t n_series; /* that have rows */
    /* The writer's: */
    uint32_t staged;
    bool ended; /* it takes no more rows: no memory, a gap in the ids, or enough */
    struct mirror_row *pages[MIRROR_MAX_PAGES];
};

/* Put an empty half in the place of what is there. NULL: no memory; nothing is there then. */
struct mirror_half *head_mirror_begin(struct head_mirror *m, enum series_kind kind, int half,
                                      int64_t epoch);
/* Take the half out; who holds a reference keeps it. */
void head_mirror_drop(struct head_mirror *m, enum series_kind kind, int half);

bool mirror_half_add_page(struct mirror_half *h);
/* Make all staged rows readable. */
void mirror_half_publish(struct mirror_half *h);
/* Forget what was staged and not published. */
void mirror_half_unstage(struct mirror_half *h);

/* Where the row of this id goes, to be filled in but for `previous`; NULL: it is not kept, nor any
 * after it. */
static inline struct mirror_row *mirror_half_stage(struct mirror_half *h, int64_t id)
{
    uint32_t i = h->staged;

    if (h->ended || id != (int64_t)i + 1 ||
        (i % MIRROR_PAGE_ROWS == 0 && !mirror_half_add_page(h))) {
        h->ended = true;
        return NULL;
    }
    h->staged++;
    return &h->pages[i / MIRROR_PAGE_ROWS][i % MIRROR_PAGE_ROWS];
}

#endif
