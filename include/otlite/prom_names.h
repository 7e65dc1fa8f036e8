/* prom_names.h -- names of Prometheus from those of OpenTelemetry (the specification's "Prometheus and
 * OpenMetrics Compatibility", the default strategy of Prometheus: underscores, with suffixes). Pure. */
#ifndef OTLITE_PROM_NAMES_H
#define OTLITE_PROM_NAMES_H

#include <stdbool.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"

/* The unit's word, "seconds" or "meters_per_second"; nothing when it has none. */
void prom_unit(struct buf *out, struct bytes unit);
/* The metric's name with unit, "_total" for a monotonic sum, "_ratio" for a gauge of unit 1. False,
 * and out as it was: nothing of the name is left. */
bool prom_metric_name(struct buf *out, struct bytes name, struct bytes unit, enum metric_type type,
                      bool is_monotonic);
/* The label of an attribute's key. False: nothing of it is left. */
bool prom_label_name(struct buf *out, struct bytes key);

#endif
