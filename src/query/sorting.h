/* sorting.h -- sorts that a query's end ends: a million label sets take seconds. */
#ifndef OTLITE_QUERY_SORTING_H
#define OTLITE_QUERY_SORTING_H

#include <stddef.h>

#include "otlite/read.h"

/* n items of size bytes, stable. OTL_ENOMEM: of a copy of them; and those of read_check, looked at
 * every few thousand items. After an error their order is anyone's guess, but all are there. */
enum otl_err sort_checked(struct read *r, void *items, size_t n, size_t size,
                          int (*compare)(const void *a, const void *b),
                          struct otl_error *err) OTL_MUSTCHECK;

#endif
