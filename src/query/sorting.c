/* sorting.c -- runs that qsort sorts, merged two by two. */
#include "sorting.h"

#include <stdlib.h>
#include <string.h>

enum { RUN = 2048 };

struct sorting {
    struct read *r;
    size_t size;
    int (*compare)(const void *a, const void *b);
    unsigned char *half; /* room for the left one of two runs */
};

/* Two sorted neighbours, left and n - left items. */
static enum otl_err merge(struct sorting *s, unsigned char *items, size_t left, size_t n,
                          struct otl_error *err)
{
    const size_t size = s->size;
    const unsigned char *a = s->half, *a_end = s->half + left * size;
    const unsigned char *b = items + left * size, *b_end = items + n * size;
    unsigned char *to = items;
    enum otl_err rc = OTL_OK;

    memcpy(s->half, items, left * size);
    for (size_t i = 0; a < a_end && b < b_end && rc == OTL_OK; i++) {
        const unsigned char **least = s->compare(b, a) < 0 ? &b : &a;

        if (i % RUN == RUN - 1)
            rc = read_check(s->r, err);
        memmove(to, *least, size);
        *least += size;
        to += size;
    }
    /* What is left of a fits before what is left of b, which is in its place, also where the merge
     * was broken off. */
    memcpy(to, a, (size_t)(a_end - a));
    return rc;
}

enum otl_err sort_checked(struct read *r, void *items, size_t n, size_t size,
                          int (*compare)(const void *a, const void *b), struct otl_error *err)
{
    struct sorting s = {.r = r, .size = size, .compare = compare};
    unsigned char *p = items;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < n && rc == OTL_OK; i += RUN) {
        qsort(p + i * size, n - i < RUN ? n - i : RUN, size, compare);
        rc = read_check(r, err);
    }
    if (n <= RUN || rc != OTL_OK)
        return rc;
    s.half = malloc(n * size);
    if (s.half == NULL)
        return otl_fail(err, OTL_ENOMEM, "query: no memory");
    for (size_t run = RUN; run < n && rc == OTL_OK; run *= 2) {
        for (size_t i = 0; i < n && n - i > run && rc == OTL_OK; i += 2 * run) {
            unsigned char *at = p + i * size;

            /* Often they are in order already. */
            if (compare(at + (run - 1) * size, at + run * size) > 0)
                rc = merge(&s, at, run, n - i < 2 * run ? n - i : 2 * run, err);
        }
    }
    free(s.half);
    return rc;
}
