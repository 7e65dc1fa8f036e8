/* read_helper.h -- a second thread for queries that decode much: one for all readers of a process,
 * for one query at a time. A query that does not get it does without. */
#ifndef OTLITE_STORE_READ_HELPER_H
#define OTLITE_STORE_READ_HELPER_H

#include <stdbool.h>

#include "otlite/err.h"

struct read_helper;
/* Starts its thread. */
enum otl_err read_helper_new(struct read_helper **out, struct otl_error *err) OTL_MUSTCHECK;
/* Nobody uses it any more. Takes NULL. */
void read_helper_free(struct read_helper *h);

/* Run fn(arg) on the helper's thread; false: it works for another query, and fn is not called. */
bool read_helper_start(struct read_helper *h, void (*fn)(void *arg), void *arg) OTL_MUSTCHECK;
/* After a start that was true, once: until fn has returned. What it wrote is seen then. */
void read_helper_wait(struct read_helper *h);

#endif
