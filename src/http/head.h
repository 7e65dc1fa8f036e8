/* head.h -- the head of an HTTP/1.1 request: where it ends, and what it says (RFC 9112).
 *
 * Pure functions over bytes; no socket, no memory of their own. They are strict where two readers
 * of the same bytes could disagree about where a request ends: a bare LF, a folded line, a blank
 * before a colon, a control character, two lengths, a length beside chunks. */
#ifndef OTLITE_HTTP_HEAD_H
#define OTLITE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/err.h"

enum {
    HEAD_MAX_FIELDS = 128, /* header lines of a request */
    /* A head longer than this is never asked for: positions in it are 32 bits wide. */
    HEAD_MAX_BYTES = 1 << 30
};

/* Where a scan of the bytes of a head stands. Zero-initialised: at its first byte. */
struct head_scan {
    size_t line;  /* where the current line begins */
    size_t seen;  /* bytes looked at; no LF in [line, seen) */
    bool started; /* the request line has begun: empty lines before it are passed over */
    size_t first; /* where the request line begins */
};

enum head_progress { HEAD_MORE, HEAD_WHOLE, HEAD_BROKEN };

/* Look at p[0..n), which begins with what the last call saw. HEAD_WHOLE: the head is
 * [scan->first, *end), its empty line included. HEAD_BROKEN: this can become no head, whatever
 * follows. */
enum head_progress head_scan(struct head_scan *scan, const char *p, size_t n, size_t *end);

struct head_field {
    uint32_t name, value; /* positions in the head; each text ends with NUL */
    uint32_t name_n, value_n;
};

enum head_expect { EXPECT_NOTHING, EXPECT_CONTINUE, EXPECT_OTHER };

struct head {
    char *text;      /* the bytes that the positions count in */
    bool has_line;   /* method and path are set */
    uint32_t method; /* positions, NUL-terminated */
    uint32_t path;   /* without query; of an absolute target its path */
    uint32_t query;  /* behind the '?'; the empty text when there is none */
    unsigned minor;  /* HTTP/1.minor */
    bool close;      /* the client, or its version, ends the connection after the answer */
    bool chunked;
    bool has_length;
    uint64_t length; /* UINT64_MAX: more digits than fit */
    enum head_expect expect;
    unsigned n_fields;
    struct head_field fields[HEAD_MAX_FIELDS];
};

/* Parse the n <= HEAD_MAX_BYTES bytes of a whole head in place: NUL bytes are put behind names and
 * values, so it can be parsed only once. What is wrong is returned as a code, with *why set to a
 * sentence; h then holds what could be read, for the sake of the answer's encoding. Borrows text
 * for the life of h; a caller that moves the bytes sets h->text. */
enum otl_err head_parse(struct head *h, char *text, size_t n, const char **why) OTL_MUSTCHECK;

/* The value of the first field of that name (any letter case), NULL when there is none. */
const char *head_find(const struct head *h, const char *name);
unsigned head_count(const struct head *h, const char *name);

/* A character of a method or of a field's name (RFC 9110 5.6.2). */
bool head_is_token(uint8_t c);

/* The next item of a comma-separated list, without the blanks around it; false at the end. */
bool head_next_item(const char **list, const char **item, size_t *n);

#endif
