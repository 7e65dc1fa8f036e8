/* series_text.h -- a series as tests write it down: name{a="1", b="2"}. */
#ifndef OTLITE_TEST_SERIES_TEXT_H
#define OTLITE_TEST_SERIES_TEXT_H

#include <stdlib.h>

#include "query/labels.h"

static inline void print_series(struct buf *out, struct labels l)
{
    struct label *others = calloc(l.n + 1, sizeof(*others));
    size_t n = 0;

    if (others == NULL)
        abort();
    for (size_t i = 0; i < l.n; i++) {
        if (!bytes_equal(l.l[i].name, bytes_str(LABEL_NAME)))
            others[n++] = l.l[i];
    }
    buf_add_bytes(out, labels_get(l, bytes_str(LABEL_NAME)));
    if (n > 0 || l.n == 0)
        labels_print(out, (struct labels){others, n});
    free(others);
}

#endif
