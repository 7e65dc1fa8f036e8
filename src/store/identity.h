/* identity.h -- the keys by which the catalogue's memory knows scopes and metrics below the row
 * above them. A resource's and a series' key are their canonical attributes as they are. */
#ifndef OTLITE_STORE_IDENTITY_H
#define OTLITE_STORE_IDENTITY_H

#include <stdbool.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"

void scope_key(struct buf *key, struct bytes name, struct bytes version, struct bytes schema_url,
               struct bytes attributes);
/* The type comes first: catalogue_load reads it from there. */
void metric_key(struct buf *key, enum metric_type type, enum temporality temporality,
                bool is_monotonic, struct bytes name, struct bytes unit);

/* key is what the function above would make, without making it. */
bool is_scope_key(struct bytes key, const struct batch_scope *s);
bool is_metric_key(struct bytes key, const struct batch_metric *m);

#endif
