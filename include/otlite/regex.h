/* regex.h -- regular expressions as Prometheus has them: RE2's syntax, run by PCRE2. They match
 * whole values only, and "." takes a line feed too. */
#ifndef OTLITE_REGEX_H
#define OTLITE_REGEX_H

#include <stdbool.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

struct regex; /* one thread at a time */

/* OTL_EBADREQUEST: the expression is none, or has something that RE2, and so Prometheus, refuses;
 * the message says what, at which character. */
enum otl_err regex_new(struct bytes pattern, struct regex **out,
                       struct otl_error *err) OTL_MUSTCHECK;
/* The same, and it remembers what its groups matched, for regex_replace. */
enum otl_err regex_new_capturing(struct bytes pattern, struct regex **out,
                                 struct otl_error *err) OTL_MUSTCHECK;
/* Takes NULL. */
void regex_free(struct regex *re);

/* Whether the whole of value matches. OTL_EBADREQUEST: the expression takes too many steps on it.
 * Where value is not UTF-8, what is wrong counts as U+FFFD. */
enum otl_err regex_hit(struct regex *re, struct bytes value, bool *out,
                       struct otl_error *err) OTL_MUSTCHECK;
/* If the whole of value matches, *hit, and template is appended to out with $1, ${1}, $name and
 * ${name} replaced by what that group matched (nothing when there is no such group, or it took no
 * part), and $$ by $, as label_replace has it and Go's Regexp.Expand; a $ before anything else
 * stands for itself. re is of regex_new_capturing. Errors as regex_hit; out->failed is the caller's
 * to look at. */
enum otl_err regex_replace(struct regex *re, struct bytes value, struct bytes template_text,
                           bool *hit, struct buf *out, struct otl_error *err) OTL_MUSTCHECK;

/* The expression in PCRE2's syntax, appended to out; for tests. OTL_EBADREQUEST as above. */
enum otl_err regex_translate(struct bytes pattern, struct buf *out,
                             struct otl_error *err) OTL_MUSTCHECK;

#endif
