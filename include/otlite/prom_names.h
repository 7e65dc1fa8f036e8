/* prom_names.h -- names of Prometheus from those of OpenTelemetry (the specification's "Prometheus and
 * OpenMetrics Compatibility", in the four ways that Prometheus' otlp.translation_strategy has). Pure. */
#ifndef OTLITE_PROM_NAMES_H
#define OTLITE_PROM_NAMES_H

#include <stdbool.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"

enum name_strategy {
    NAMES_UNDERSCORES_WITH_SUFFIXES, /* UnderscoreEscapingWithSuffixes, the default */
    NAMES_UNDERSCORES_WITHOUT_SUFFIXES,
    NAMES_UTF8_WITH_SUFFIXES, /* NoUTF8EscapingWithSuffixes */
    NAMES_UNTRANSLATED,       /* NoTranslation */
    NAME_STRATEGIES
};

/* The unit's word, "seconds" or "meters_per_second"; nothing when it has none. */
void prom_unit(struct buf *out, struct bytes unit);
/* The metric's name; with suffixes: with unit, "_total" for a monotonic sum, "_ratio" for a gauge of unit
 * 1. False, and out as it was: nothing of the name is left. */
bool prom_metric_name(struct buf *out, enum name_strategy strategy, struct bytes name,
                      struct bytes unit, enum metric_type type, bool is_monotonic);
/* The label of an attribute's key. False, and out as it was: nothing of it is left. */
bool prom_label_name(struct buf *out, enum name_strategy strategy, struct bytes key);

#endif
