/* json_path.h -- where in a request the JSON decoder is, and words for what it found there. Fields
 * are named by their proto names and shown by their JSON keys. */
#ifndef OTLITE_OTLP_JSON_PATH_H
#define OTLITE_OTLP_JSON_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"
#include "otlite/json_reader.h"

/* One link for each message on the way down, innermost first. */
struct json_place {
    const struct json_place *up; /* NULL: the top */
    const char *name;            /* proto name of the field; unused at the top */
    size_t index;                /* element of a repeated field, or JSON_NO_INDEX */
};

#define JSON_NO_INDEX SIZE_MAX

/* A path is cut to what struct otl_error holds; "..." at its end says so. */
struct json_path {
    char s[sizeof(((struct otl_error *)0)->field)];
    size_t n;
};

/* As in resourceMetrics[0].scopeMetrics[2].metrics[1].name; empty at the top. */
void json_path_of(const struct json_place *at, struct json_path *out);

/* Whether key is the lowerCamelCase key of the field with this proto name. */
bool json_key_is(const char *name, struct bytes key);

/* A few words for what was found. Text of the client is shown only when short and harmless. */
void json_describe(enum json_event event, struct bytes text, char *out, size_t cap);

#endif
