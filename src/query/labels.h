/* labels.h -- the labels of a series as Prometheus has them: names and values, sorted by name, no
 * name twice, no empty value (an empty one is none). The metric's name is the label __name__.
 * Values are immutable; whoever made them owns the memory, in an arena as a rule. */
#ifndef OTLITE_QUERY_LABELS_H
#define OTLITE_QUERY_LABELS_H

#include "otlite/arena.h"
#include "otlite/bytes.h"

struct label {
    struct bytes name, value;
};
struct labels {
    const struct label *l;
    size_t n;
};

#define LABEL_NAME "__name__"

/* The value of a label; empty when there is none. */
struct bytes labels_get(struct labels l, struct bytes name);
bool labels_equal(struct labels a, struct labels b);
/* The order in which Prometheus sorts series: label by label, name then value, shorter first. */
int labels_compare(struct labels a, struct labels b);
uint64_t labels_hash(struct labels l);
/* As text: {__name__="name", a="1"}, names that are no identifiers quoted, as messages of the
 * evaluator have it. */
void labels_print(struct buf *out, struct labels l);

/* The following make labels in the arena that borrow the bytes of the old ones. False: no memory.
 */
/* Without these names, or with only these. names need not be sorted. */
bool labels_drop(struct arena *a, struct labels l, const struct bytes *names, size_t n,
                 struct labels *out) OTL_MUSTCHECK;
bool labels_keep(struct arena *a, struct labels l, const struct bytes *names, size_t n,
                 struct labels *out) OTL_MUSTCHECK;
/* With one set or, by an empty value, removed. Name and value are borrowed. */
bool labels_set(struct arena *a, struct labels l, struct bytes name, struct bytes value,
                struct labels *out) OTL_MUSTCHECK;
/* Sort l in place, drop empty values; of a name that occurs twice the last one in l counts. Returns
 * how many are left. */
size_t labels_normalise(struct label *l, size_t n);

#endif
