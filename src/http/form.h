/* form.h -- name=value&name=value of a query string or a form (WHATWG URL, "urlencoded parsing").
 */
#ifndef OTLITE_HTTP_FORM_H
#define OTLITE_HTTP_FORM_H

#include "otlite/query.h"

/* Parameters of one or more texts; owner of their memory. */
struct form {
    struct query_param *params;
    size_t n, cap;
    uint8_t *bytes; /* decoded, of all texts; room was made at the beginning */
    size_t used;
};

/* Room for texts of that many bytes together. False: no memory. */
bool form_init(struct form *f, size_t bytes);
/* False: no memory. */
bool form_add(struct form *f, struct bytes text);
void form_fini(struct form *f);
/* %XX and, where plus is set, + into blanks; out has room for text.n. Returns its length. */
size_t form_decode(struct bytes text, bool plus, uint8_t *out);

#endif
