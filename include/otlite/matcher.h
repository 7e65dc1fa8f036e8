/* matcher.h -- one comparison of a label's value with a text or a regular expression, made ready to
 * be tried on many values. */
#ifndef OTLITE_MATCHER_H
#define OTLITE_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"
#include "otlite/read.h"
#include "otlite/regex.h"

/* What may stand before and behind the text of an alternative. */
enum wild { WILD_NONE, WILD_ANY /* .* */, WILD_SOME /* .+ */ };

/* The usual expressions need no engine: a|b|c, prefix.*, .*part.*, .+ */
struct alternative {
    struct bytes text; /* in the matcher's own memory */
    enum wild before, behind;
};

struct value_matcher {
    struct alternative *alternatives; /* n of them, or regex */
    size_t n;
    bool literal; /* all alternatives are plain texts: sorted, a value is looked up */
    struct regex *regex;
    struct buf text;
    bool negative;   /* != or !~ */
    bool hits_empty; /* the empty text fits, before negation */
};

/* OTL_EBADREQUEST: the expression is none, or has something that RE2, and so Prometheus, refuses.
 */
enum otl_err value_matcher_init(struct value_matcher *vm, enum match_op op, struct bytes value,
                                struct otl_error *err) OTL_MUSTCHECK;
void value_matcher_fini(struct value_matcher *vm);

/* Whether the whole of value fits, before negation. OTL_EBADREQUEST: the expression takes too many
 * steps on it. */
enum otl_err value_matcher_hit(struct value_matcher *vm, struct bytes value, bool *out,
                               struct otl_error *err) OTL_MUSTCHECK;

#endif
