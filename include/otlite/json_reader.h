/* json_reader.h -- a pull reader of JSON (RFC 8259) over bytes in memory: one event a call, no
 * tree.
 *
 * Strict in syntax, lenient where real senders need it: numbers stay text, so that the caller
 * decides what they become and nothing is lost on the way; bytes in strings are not checked for
 * UTF-8; a lone surrogate escape becomes U+FFFD. Strings without escapes borrow the body, others
 * are unescaped into the arena. Iterative: nesting costs one bit a level, not stack. */
#ifndef OTLITE_JSON_READER_H
#define OTLITE_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/arena.h"
#include "otlite/bytes.h"
#include "otlite/err.h"

/* The most levels of objects and arrays that a reader can be told to take. */
enum { JSON_DEPTH_CAP = 1024 };

/* EV, for jansson, the oracle of the tests, has JSON_OBJECT and so on. */
enum json_event {
    JSON_EV_ERROR, /* see error_code, error_text, error_at; every later call gives it again */
    JSON_EV_END,   /* the document is complete and nothing follows it */
    JSON_EV_OBJECT,
    JSON_EV_OBJECT_END,
    JSON_EV_ARRAY,
    JSON_EV_ARRAY_END,
    JSON_EV_KEY,    /* text: the key; the value is next */
    JSON_EV_STRING, /* text: the content, unescaped */
    JSON_EV_NUMBER, /* text: the literal */
    JSON_EV_TRUE,
    JSON_EV_FALSE,
    JSON_EV_NULL
};

enum json_state {
    JSON_STATE_VALUE,        /* a value must come */
    JSON_STATE_ARRAY_FIRST,  /* a value or ']' */
    JSON_STATE_OBJECT_FIRST, /* a key or '}' */
    JSON_STATE_AFTER,        /* a value ended: ',' or the end of what holds it */
    JSON_STATE_FAILED
};

struct json_reader {
    const uint8_t *start, *p, *end;
    struct arena *arena;
    enum json_state state;
    uint32_t depth; /* open objects and arrays, <= max_depth */
    uint32_t max_depth;
    uint64_t is_object[(JSON_DEPTH_CAP) / 64]; /* one bit a level */
    bool skipping; /* strings are checked but not unescaped, so skipping takes no memory */

    struct bytes text;  /* of the last KEY, STRING or NUMBER; lives as long as body and arena */
    bool text_repaired; /* text had a lone surrogate escape, now U+FFFD */

    enum otl_err error_code; /* OTL_EBADDATA, or OTL_ETOOBIG / OTL_ENOMEM for want of room */
    const char *error_text;  /* completes "not valid JSON: ..." */
    size_t error_at;         /* offset in the body */
};

/* Borrows body and a for as long as the reader and the texts it gave are used. max_depth is at most
 * JSON_DEPTH_CAP. */
void json_reader_init(struct json_reader *r, struct bytes body, uint32_t max_depth,
                      struct arena *a);

enum json_event json_next(struct json_reader *r);

/* Read the value that comes next, whole, and forget it. False on an error. */
bool json_skip_value(struct json_reader *r);
/* Read what is left of the value that began with event (nothing for a scalar). False on an error,
 * also when event is JSON_EV_ERROR. */
bool json_skip_rest(struct json_reader *r, enum json_event event);

/* An estimate of how many elements the array of scalars has whose JSON_EV_ARRAY was just read:
 * exact unless strings in it hold ',' or ']'. For sizing only. */
size_t json_count_scalars(const struct json_reader *r);

enum json_number {
    JSON_NUMBER_OK,
    JSON_NUMBER_FRACTION, /* a number, but not a whole one */
    JSON_NUMBER_RANGE,    /* too large for the result */
    JSON_NUMBER_SYNTAX    /* not a JSON number */
};

/* These take the whole of text, which must follow the grammar of JSON numbers. *out is set on
 * JSON_NUMBER_OK only. Integers are exact and never pass through a double; 10, 1e1 and 1.0e1 are
 * the same integer, and minus zero is zero. */
enum json_number json_parse_signed(struct bytes text, int64_t min, int64_t max, int64_t *out);
enum json_number json_parse_unsigned(struct bytes text, uint64_t max, uint64_t *out);

/* The nearest double. Out of range when that would be infinite. Independent of the locale. */
enum json_number json_parse_double(struct bytes text, double *out);

#endif
