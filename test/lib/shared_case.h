/* shared_case.h -- inputs of ../shared/cases, and bodies placed right before a guard page. */
#ifndef OTLITE_TEST_SHARED_CASE_H
#define OTLITE_TEST_SHARED_CASE_H

#include "otlite/bytes.h"

/* Read cases/NAME below $OTLITE_SHARED (default ../shared); a .hex file is decoded. The content
 * replaces out's. False, after saying so, when the folder or the file is absent: skip() then. */
bool shared_case(const char *name, struct buf *out);

/* A copy whose last byte lies right before an unreadable page: a read past the end is a crash. */
struct guarded {
    struct bytes b;
    void *map;
    size_t map_n;
};

struct guarded guarded_copy(struct bytes s);
void guarded_free(struct guarded *g);

#endif
